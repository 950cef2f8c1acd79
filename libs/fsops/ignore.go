package fsops

import (
	"bufio"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/unicode/norm"
)

const (
	// IgnoreFile is the name of the files that say what searches leave out.
	IgnoreFile = ".gitignore"
	// MaxIgnoreBytes is how much of such a file is read.
	MaxIgnoreBytes = 256 << 10
)

// Ignore decides what searches leave out: ".git" directories, and what .gitignore files exclude, by Git's rules. Add the file of a directory before asking
// about what is below it. The zero value is ready; it is not safe for concurrent use while files are added.
type Ignore struct {
	rules []ignoreRule
}

type ignoreRule struct {
	dir     Path
	pattern string
	negate  bool
	dirOnly bool
	// anchored: matched against the whole path below dir, not just the name.
	anchored bool
	// kind says how the pattern is matched; most need no pattern matching at all.
	kind ignoreKind
}

type ignoreKind uint8

const (
	ignoreGlob   ignoreKind = iota
	ignoreEqual             // without special characters
	ignoreSuffix            // "*" and a plain ending, which is kept
)

func (r *ignoreRule) matches(subject string) bool {
	switch r.kind {
	case ignoreEqual:
		return subject == r.pattern
	case ignoreSuffix:
		return strings.HasSuffix(subject, r.pattern)
	}
	return doublestar.MatchUnvalidated(r.pattern, subject)
}

// With returns the rules of g and those of the .gitignore of a directory. It does not change g: rules made with it only can be used by many at once.
func (g *Ignore) With(dir Path, content []byte) *Ignore {
	out := &Ignore{rules: slices.Clip(g.rules)}
	out.Add(dir, content)
	return out
}

// Empty says that no file excludes anything; ".git" directories are excluded still.
func (g *Ignore) Empty() bool { return len(g.rules) == 0 }

// Add reads the .gitignore of a directory. Lines that are no pattern are passed over, as Git does.
func (g *Ignore) Add(dir Path, content []byte) {
	lines := bufio.NewScanner(strings.NewReader(string(content[:min(len(content), MaxIgnoreBytes)])))
	for lines.Scan() {
		if rule, ok := parseIgnore(lines.Text()); ok {
			rule.dir = dir
			g.rules = append(g.rules, rule)
		}
	}
}

func parseIgnore(line string) (ignoreRule, bool) {
	line = strings.TrimRight(strings.TrimPrefix(line, "\uFEFF"), "\r")
	for strings.HasSuffix(line, " ") && !strings.HasSuffix(line, `\ `) {
		line = line[:len(line)-1]
	}
	if line == "" || line[0] == '#' {
		return ignoreRule{}, false
	}
	var r ignoreRule
	if line[0] == '!' {
		r.negate, line = true, line[1:]
	}
	if strings.HasSuffix(line, "/") {
		r.dirOnly, line = true, strings.TrimRight(line, "/")
	}
	r.anchored = strings.Contains(line, "/")
	// Braces mean themselves in these files.
	r.pattern = norm.NFC.String(strings.NewReplacer("{", `\{`, "}", `\}`).Replace(strings.TrimPrefix(line, "/")))
	if r.pattern == "" || !doublestar.ValidatePattern(r.pattern) {
		return ignoreRule{}, false
	}
	const special = `*?[]{}\`
	if !strings.ContainsAny(r.pattern, special) {
		r.kind = ignoreEqual
	} else if ending := r.pattern[1:]; r.pattern[0] == '*' && !r.anchored && !strings.ContainsAny(ending, special) {
		r.kind, r.pattern = ignoreSuffix, ending
	}
	return r, true
}

// Ignored says whether the path itself is excluded. What lies below an excluded directory is excluded too: [Ignore.IgnoredBelow].
func (g *Ignore) Ignored(p Path, isDir bool) bool {
	if isDir && p.Name() == ".git" {
		return true
	}
	name := p.key[strings.LastIndexByte(p.key, '/')+1:]
	// The last rule that matches counts.
	for i := len(g.rules) - 1; i >= 0; i-- {
		r := &g.rules[i]
		if r.dirOnly && !isDir || !p.Under(r.dir) {
			continue
		}
		subject := name
		if r.anchored {
			subject = p.key
			if !r.dir.IsRoot() {
				subject = subject[len(r.dir.key)+1:]
			}
		}
		if r.matches(subject) {
			return !r.negate
		}
	}
	return false
}

// IgnoredBelow says whether the path or a directory above it is excluded.
func (g *Ignore) IgnoredBelow(p Path, isDir bool) bool {
	for _, dir := range p.Ancestors() {
		if g.Ignored(dir, true) {
			return true
		}
	}
	return g.Ignored(p, isDir)
}
