package offline

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestExtractFacts(t *testing.T) {
	tests := map[string]struct {
		text string
		want []Fact
	}{
		"asked":             {"Please remember that the router is in the attic. Thanks!", []Fact{{"The router is in the attic", FactAsked}}},
		"statement":         {"By the way, my favourite colour is teal.", []Fact{{"My favourite colour is teal", FactStatement}}},
		"several":           {"I prefer tabs over spaces. We decided to ship on Fridays. My dog's name is Rex!", []Fact{{"I prefer tabs over spaces", FactPreference}, {"We decided to ship on Fridays", FactDecision}, {"My dog's name is Rex", FactStatement}}},
		"identity":          {"My name is Ada and I live in York.", []Fact{{"My name is Ada and I live in York", FactIdentity}}},
		"always":            {"From now on, answer in French.", []Fact{{"From now on, answer in French", FactPreference}}},
		"once":              {"I like tea. I like tea.", []Fact{{"I like tea", FactPreference}}},
		"questions are not": {"Do I like tea? What is my name?", nil},
		"orders are not":    {"Read a.txt and write 'x' to b.txt.", nil},
		"blocks are not":    {"Look:\n```\nmy secret is 42\n```", nil},
		"lists":             {"- I use vim\n- the weather is nice", []Fact{{"I use vim", FactPreference}}},
		"file names":        {"My notes are in docs/a.b.md.", []Fact{{"My notes are in docs/a.b.md", FactStatement}}},
		"german":            {"Ich bevorzuge Tee. Mein Hund heißt Rex. Wir haben beschlossen, freitags zu liefern.", []Fact{{"Ich bevorzuge Tee", FactPreference}, {"Mein Hund heißt Rex", FactStatement}, {"Wir haben beschlossen, freitags zu liefern", FactDecision}}},
		"chinese":           {"我的生日是五月三日。我喜欢喝茶。我们决定周五发布。", []Fact{{"我的生日是五月三日", FactStatement}, {"我喜欢喝茶", FactPreference}, {"我们决定周五发布", FactDecision}}},
		"prose is too long": {"I like " + strings.Repeat("very ", 100) + "long walks.", nil},
		"nothing":           {"", nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, ExtractFacts(tt.text)); diff != "" {
				t.Errorf("facts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSummarise(t *testing.T) {
	long := "# Title\n\nFirst sentence. Second sentence.\nA line that goes on.\n\n## Part\n\n- item one. more\n- item two\n\n```\ncode is left out\n```\n\nLast paragraph. End."
	tests := map[string]struct {
		text  string
		limit int
		want  string
	}{
		"short is kept": {"  a b  ", 100, "a b"},
		"by headline":   {long, 120, "# Title\nFirst sentence.\n## Part\n- item one.\n- item two\nLast paragraph."},
		"spread":        {long, 50, "# Title\nFirst sentence.\n- item one.\n- item two\n…"},
		"repeats":       {strings.Repeat("Same line.\n\n", 20), 100, "Same line."},
		"one long line": {strings.Repeat("é", 50), 10, "ééééééééé…"},
		"nothing fits":  {"abc", 1, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Summarise(tt.text, tt.limit)
			if n := utf8.RuneCountInString(got); n > tt.limit {
				t.Errorf("%d characters, the limit is %d", n, tt.limit)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
		})
	}
}
