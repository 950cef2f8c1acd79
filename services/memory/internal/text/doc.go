// Package text turns text of any language into the terms that the index holds, and queries into the terms to look for.
//
// Both go through the same functions, so what was written can be found as it was written. Four kinds of terms stand side by side, each in a field
// of its own:
//
//	words   runs of letters and digits, folded: letter case, accents and width made equal
//	stems   words cut to their stem by the language that the text seems to be in, "en:deploy"
//	grams   single characters and pairs of neighbours, for scripts that put no spaces between words, for Korean (whose
//	        particles stick to the words), and for symbols
//	code    what is written without spaces and is more than a word: "c++", "src/core", ":8443", parts of camelCase
//
// Nothing in a query has a meaning of its own: there is no syntax, so there are no syntax errors.
package text
