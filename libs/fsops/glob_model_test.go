package fsops

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/bmatcuk/doublestar/v4"
)

// naiveGlob matches names one by one in every way there is. It knows no braces and no classes but those that doublestar matches within a name.
func naiveGlob(pattern, names []string) bool {
	switch {
	case len(pattern) == 0:
		return len(names) == 0
	case pattern[0] == "**":
		return naiveGlob(pattern[1:], names) || len(names) > 0 && !strings.HasPrefix(names[0], ".") && naiveGlob(pattern, names[1:])
	case len(names) == 0:
		return false
	case strings.HasPrefix(names[0], ".") && !strings.HasPrefix(pattern[0], "."):
		return false
	}
	ok, err := doublestar.Match(pattern[0], names[0])
	return ok && err == nil && naiveGlob(pattern[1:], names[1:])
}

// The engine agrees with a naive matcher and, where no name is hidden, with doublestar.
func TestGlobModel(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	pick := func(from ...string) []string {
		out := make([]string, 1+random.IntN(4))
		for i := range out {
			out[i] = from[random.IntN(len(from))]
		}
		return out
	}
	for range 100_000 {
		pattern, names := pick("a", "b", "*", "a*", "*b", "?", "[ab]", "[^a]", "{a,b*}", "**", "**", ".*", ".a", "é?", `\a`), pick("a", "b", "ab", "ba", "c", ".a", "éx", "aab")
		text := strings.Join(pattern, "/")
		if len(pattern) > 1 && pattern[len(pattern)-1] == "**" {
			text = strings.Join(append(pattern, "*"), "/") // what "**" at the end means: what is below, not the directory itself
		}
		g, err := CompileGlob(text)
		if err != nil {
			t.Fatal(err)
		}
		p := PathOf(strings.Join(names, "/"))
		got := g.Match(p)
		split := strings.Split(text, "/")
		if len(split) == 1 && split[0] != "**" {
			split = append([]string{"**"}, split...)
		}
		if want := naiveGlob(split, names); got != want {
			t.Fatalf("%q matches %q: %v, want %v", text, p, got, want)
		}
		if !strings.HasPrefix(p.Key(), ".") && !strings.Contains(p.Key(), "/.") {
			if want := doublestar.MatchUnvalidated(strings.Join(split, "/"), p.Key()); got != want {
				t.Fatalf("%q matches %q: %v, doublestar says %v", text, p, got, want)
			}
		}
		if got && !g.MayMatchName(names[len(names)-1]) {
			t.Fatalf("%q matches %q, yet no path of that name", text, p)
		}
	}
}
