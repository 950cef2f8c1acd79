package fsops

import (
	"strconv"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"golang.org/x/text/unicode/norm"
)

// maxAlternatives bounds into how many patterns the braces of one pattern may unfold.
const maxAlternatives = 256

// Glob is a compiled pattern. It is safe for concurrent use.
type Glob struct {
	alternatives [][]string // each a pattern split into names; "**" stands for any number of names
}

// CompileGlob reads a pattern: "*" and "?" within a name, "**" as a whole name over directories, "[…]", "{a,b}", "\" before a character
// that is meant literally. A pattern without "/" matches at any depth; a leading "/" is dropped and binds the pattern to the root. Names that begin with a dot match only
// where the pattern names the dot. Comparison is in Unicode NFC. PATTERN_INVALID for a bad pattern.
func CompileGlob(pattern string) (*Glob, error) {
	if len(pattern) > MaxPathBytes {
		return nil, errPattern(pattern, 0, "has over 4096 bytes")
	}
	if strings.IndexByte(pattern, 0) >= 0 {
		return nil, errPattern(pattern, strings.IndexByte(pattern, 0), "holds a NUL byte")
	}
	if !doublestar.ValidatePattern(pattern) {
		return nil, errPattern(pattern, badAt(pattern), "is not complete")
	}
	unfolded, ok := unfold(norm.NFC.String(pattern), nil)
	if !ok {
		return nil, errPattern(pattern, 0, "unfolds into over "+strconv.Itoa(maxAlternatives)+" patterns")
	}
	g := &Glob{}
	for _, text := range unfolded {
		names := splitPattern(text)
		if !strings.Contains(text, "/") && names[0] != "**" {
			names = []string{"**", names[0]}
		}
		for _, name := range names {
			if !doublestar.ValidatePattern(name) {
				return nil, errPattern(pattern, badAt(pattern), `has a "/" inside brackets, or a "]" or "}" without its beginning`)
			}
		}
		g.alternatives = append(g.alternatives, names)
	}
	return g, nil
}

// Match says whether the path matches. The root matches nothing.
func (g *Glob) Match(p Path) bool {
	if p.IsRoot() {
		return false
	}
	names := strings.Split(p.Key(), "/")
	for _, pattern := range g.alternatives {
		if matchNames(pattern, names) {
			return true
		}
	}
	return false
}

// MayMatchName says whether a path whose last name is this can match. False is certain, and cheaper to know than what [Glob.Match] says.
func (g *Glob) MayMatchName(name string) bool {
	for _, pattern := range g.alternatives {
		switch last := pattern[len(pattern)-1]; {
		case last == "**":
			return true
		case last[0] == '*' && !strings.ContainsAny(last[1:], `*?[\{`):
			if strings.HasSuffix(name, last[1:]) {
				return true
			}
		case matchName(last, norm.NFC.String(name)):
			return true
		}
	}
	return false
}

// MayMatchBelow says whether a path below the directory can match. False is certain: the directory need not be looked at.
func (g *Glob) MayMatchBelow(dir Path) bool {
	if dir.IsRoot() {
		return true
	}
	names := strings.Split(dir.Key(), "/")
	for _, pattern := range g.alternatives {
		if mayMatchBelow(pattern, names) {
			return true
		}
	}
	return false
}

// Prefix returns the directory below which every match lies; the root when there is no narrower one.
func (g *Glob) Prefix() Path {
	var common []string
	for i, pattern := range g.alternatives {
		var literal []string
		for _, name := range pattern[:len(pattern)-1] {
			plain, ok := literalName(name)
			if !ok {
				break
			}
			literal = append(literal, plain)
		}
		if i == 0 {
			common = literal
			continue
		}
		n := 0
		for n < min(len(common), len(literal)) && common[n] == literal[n] {
			n++
		}
		common = common[:n]
	}
	return PathOf(strings.Join(common, "/"))
}

// matchNames matches names against a pattern. It goes back to the last "**" only, so its cost is at most the product of both lengths.
func matchNames(pattern, names []string) bool {
	p, n := 0, 0
	backPattern, backName := -1, 0
	for n < len(names) {
		switch {
		case p < len(pattern) && pattern[p] == "**":
			if p == len(pattern)-1 {
				return allVisible(names[n:])
			}
			backPattern, backName = p+1, n
			p++
		case p < len(pattern) && matchName(pattern[p], names[n]):
			p, n = p+1, n+1
		case backPattern >= 0 && !hidden(names[backName]):
			backName++
			p, n = backPattern, backName
		default:
			return false
		}
	}
	return p == len(pattern)
}

func mayMatchBelow(pattern, dir []string) bool {
	for i, name := range dir {
		if i == len(pattern) {
			return false
		}
		if pattern[i] == "**" {
			// What follows "**" may name dots at any depth, so only a pattern that ends in "**" or names no dots can rule out hidden names.
			return allVisible(dir[i:]) || namesDot(pattern[i+1:])
		}
		if !matchName(pattern[i], name) {
			return false
		}
	}
	return len(pattern) > len(dir)
}

func namesDot(pattern []string) bool {
	for _, name := range pattern {
		if dotted(name) {
			return true
		}
	}
	return false
}

func allVisible(names []string) bool {
	for _, name := range names {
		if hidden(name) {
			return false
		}
	}
	return true
}

func matchName(pattern, name string) bool {
	return (!hidden(name) || dotted(pattern)) && doublestar.MatchUnvalidated(pattern, name)
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") }

// dotted says whether a pattern names the dot that it begins with.
func dotted(pattern string) bool {
	return strings.HasPrefix(pattern, ".") || strings.HasPrefix(pattern, `\.`)
}

// literalName returns the only name that a pattern matches, if it is only one.
func literalName(pattern string) (string, bool) {
	if strings.ContainsAny(pattern, `*?[\`) {
		return "", false
	}
	return pattern, true
}

// splitPattern splits at "/", drops empty names and ".", and joins neighbouring "**".
func splitPattern(text string) []string {
	var names []string
	for name := range strings.SplitSeq(text, "/") {
		if name == "" || name == "." || name == "**" && len(names) > 0 && names[len(names)-1] == "**" {
			continue
		}
		names = append(names, name)
	}
	if len(names) == 0 || strings.HasSuffix(text, "/") {
		// "dir/" means what is in it.
		names = append(names, "**")
	}
	return names
}

// unfold replaces the braces of a valid pattern by all their alternatives. False: there are too many.
func unfold(pattern string, into []string) ([]string, bool) {
	open := indexUnescaped(pattern, '{', 0)
	if open < 0 {
		return append(into, pattern), len(into) < maxAlternatives
	}
	depth, start := 0, open+1
	var parts []string
	for i := open; i < len(pattern); i++ {
		switch pattern[i] {
		case '\\':
			i++
		case '[':
			if end := classEnd(pattern, i); end > 0 {
				i = end
			}
		case '{':
			depth++
		case ',':
			if depth == 1 {
				parts = append(parts, pattern[start:i])
				start = i + 1
			}
		case '}':
			if depth--; depth > 0 {
				continue
			}
			parts = append(parts, pattern[start:i])
			ok := true
			for _, part := range parts {
				if into, ok = unfold(pattern[:open]+part+pattern[i+1:], into); !ok {
					return nil, false
				}
			}
			return into, true
		}
	}
	return append(into, pattern), true
}

// indexUnescaped finds c outside of classes and not after "\".
func indexUnescaped(pattern string, c byte, from int) int {
	for i := from; i < len(pattern); i++ {
		switch {
		case pattern[i] == '\\':
			i++
		case pattern[i] == c:
			return i
		case pattern[i] == '[':
			if end := classEnd(pattern, i); end > 0 {
				i = end
			}
		}
	}
	return -1
}

// classEnd returns where the class that begins at i ends, or -1.
func classEnd(pattern string, i int) int {
	for j := i + 1; j < len(pattern); j++ {
		switch {
		case pattern[j] == '\\':
			j++
		case pattern[j] == ']':
			return j
		}
	}
	return -1
}

// badAt returns where an invalid pattern stops being one: its longest valid beginning.
func badAt(pattern string) int {
	for i := len(pattern) - 1; i > 0; i-- {
		if doublestar.ValidatePattern(pattern[:i]) {
			return i
		}
	}
	return 0
}

func errPattern(pattern string, position int, problem string) error {
	return fail(errdefs.ErrInvalidArgument, ReasonPatternInvalid, "pattern %s %s (position %d)", quote(pattern), problem, position).
		With("pattern", clip(pattern)).With("position", strconv.Itoa(position)).With("problem", problem)
}
