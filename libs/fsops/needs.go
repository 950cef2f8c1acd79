package fsops

import (
	"regexp/syntax"
	"slices"
	"unicode"
	"unicode/utf8"
)

// Needs says what a line must hold to match: of each set at least one text. It is what an index, or a fast look at the bytes, can test before the pattern is tried.
// Texts are in NFC and hold no line break; where case does not matter they went through [FoldRune]. No set: nothing is known.
type Needs [][]string

const (
	// needSet bounds how many texts one set has.
	needSet = 16
	// needBytes bounds a text of a set.
	needBytes = 64
	// foldClass bounds the classes of characters that are unfolded: "[Tt]", "[abc]".
	foldClass = 4
)

// FoldRune maps all runes that are equal by Unicode simple folding to one of them: an ASCII letter in lower case where there is one.
func FoldRune(r rune) rune {
	if r < utf8.RuneSelf {
		if 'A' <= r && r <= 'Z' {
			r += 'a' - 'A'
		}
		return r
	}
	low := r
	for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
		if 'a' <= f && f <= 'z' {
			return f
		}
		low = min(low, f)
	}
	return low
}

// analysis is what a part of a pattern needs.
type analysis struct {
	exact []string // all texts that the part matches; nil when they are too many
	needs Needs    // of any text that it matches
}

// analyser finds out what patterns need.
type analyser struct{ fold bool }

func (a analyser) needs(re *syntax.Regexp) Needs {
	out := a.of(re)
	return append(out.needs, needOf(out.exact)...)
}

// needOf is the need of a part that matches exactly these texts.
func needOf(exact []string) Needs {
	if len(exact) == 0 || slices.Contains(exact, "") {
		return nil
	}
	return Needs{exact}
}

func (a analyser) of(re *syntax.Regexp) analysis {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary, syntax.OpNoWordBoundary:
		return analysis{exact: []string{""}}
	case syntax.OpLiteral:
		return a.literal(re.Rune)
	case syntax.OpCharClass:
		return a.class(re.Rune)
	case syntax.OpCapture:
		return a.of(re.Sub[0])
	case syntax.OpPlus:
		sub := a.of(re.Sub[0])
		return analysis{needs: append(sub.needs, needOf(sub.exact)...)}
	case syntax.OpQuest:
		if sub := a.of(re.Sub[0]); sub.exact != nil && len(sub.exact) < needSet {
			return analysis{exact: union(sub.exact, []string{""})}
		}
	case syntax.OpConcat:
		return a.concat(re.Sub)
	case syntax.OpAlternate:
		return a.alternate(re.Sub)
	}
	return analysis{}
}

func (a analyser) literal(runes []rune) analysis {
	text := make([]byte, 0, len(runes))
	for _, r := range runes {
		if r == utf8.RuneError || r == '\n' {
			// U+FFFD matches wrong bytes too, and a line break matches nothing: neither is worth the thought.
			return analysis{}
		}
		if a.fold {
			r = FoldRune(r)
		}
		text = utf8.AppendRune(text, r)
	}
	return analysis{exact: []string{string(text)}}
}

func (a analyser) class(ranges []rune) analysis {
	var texts []string
	for i := 0; i+1 < len(ranges); i += 2 {
		for r := ranges[i]; r <= ranges[i+1]; r++ {
			one := a.literal([]rune{r})
			if one.exact == nil {
				return analysis{}
			}
			if texts = union(texts, one.exact); len(texts) > foldClass {
				return analysis{}
			}
		}
	}
	return analysis{exact: texts}
}

// concat joins what its parts match exactly for as long as that stays small.
func (a analyser) concat(parts []*syntax.Regexp) analysis {
	var out analysis
	run, whole := []string{""}, true
	for _, part := range parts {
		sub := a.of(part)
		joined := product(run, sub.exact)
		if joined == nil {
			whole = false
			out.needs = append(out.needs, needOf(run)...)
			if joined = sub.exact; joined == nil {
				joined = []string{""}
			}
		}
		out.needs = append(out.needs, sub.needs...)
		run = joined
	}
	if whole {
		out.exact = run
		return out
	}
	out.needs = append(out.needs, needOf(run)...)
	return out
}

// alternate needs, of each way, what is most worth to look for.
func (a analyser) alternate(ways []*syntax.Regexp) analysis {
	var exact, need []string
	exactly, needed := true, true
	for _, way := range ways {
		sub := a.of(way)
		exactly = exactly && sub.exact != nil
		exact = union(exact, sub.exact)
		set := bestSet(append(slices.Clone(sub.needs), needOf(sub.exact)...))
		needed = needed && set != nil
		need = union(need, set)
	}
	switch {
	case exactly && len(exact) <= needSet:
		return analysis{exact: exact}
	case needed && len(need) <= needSet:
		return analysis{needs: Needs{need}}
	}
	return analysis{}
}

// bestSet is the set whose shortest text is the longest.
func bestSet(needs Needs) []string {
	var best []string
	length := 0
	for _, set := range needs {
		shortest := len(slices.MinFunc(set, func(a, b string) int { return len(a) - len(b) }))
		if shortest > length || shortest == length && len(set) < len(best) {
			best, length = set, shortest
		}
	}
	return best
}

// product joins each text of a with each of b; nil when that is too much.
func product(a, b []string) []string {
	if b == nil || len(a)*len(b) > needSet {
		return nil
	}
	var out []string
	for _, x := range a {
		for _, y := range b {
			if len(x)+len(y) > needBytes {
				return nil
			}
			out = union(out, []string{x + y})
		}
	}
	return out
}

func union(a, b []string) []string {
	for _, text := range b {
		if !slices.Contains(a, text) {
			a = append(a, text)
		}
	}
	return a
}

// foldsCase says whether a part of a pattern is matched without regard to case.
func foldsCase(re *syntax.Regexp) bool {
	return re.Flags&syntax.FoldCase != 0 && re.Op == syntax.OpLiteral || slices.ContainsFunc(re.Sub, foldsCase)
}
