// Package trigram tells which files can't match a search, from small signatures of their contents.
//
// A signature is a Bloom filter over the trigrams of a content: each run of three bytes within a line, after case folding, sets one bit. A query is what a pattern needs
// (see fsops.Needs) in the same form. A file whose signature lacks a trigram that every match needs can't match; any other file is a candidate and is read. Signatures of
// a few thousand bits make one file in thousands a candidate by mistake for a word of eight letters, and never hide a match.
package trigram
