package fsops

import (
	"bufio"
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
}

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
	return r, r.pattern != "" && doublestar.ValidatePattern(r.pattern)
}

// Ignored says whether the path itself is excluded. What lies below an excluded directory is excluded too: [Ignore.IgnoredBelow].
func (g *Ignore) Ignored(p Path, isDir bool) bool {
	if isDir && p.Name() == ".git" {
		return true
	}
	ignored := false
	for i := range g.rules {
		r := &g.rules[i]
		if r.negate != ignored || r.dirOnly && !isDir || !p.Under(r.dir) {
			continue
		}
		subject := p.Key()
		if r.anchored {
			if !r.dir.IsRoot() {
				subject = subject[len(r.dir.Key())+1:]
			}
		} else {
			subject = subject[strings.LastIndexByte(subject, '/')+1:]
		}
		if doublestar.MatchUnvalidated(r.pattern, subject) {
			ignored = !r.negate
		}
	}
	return ignored
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
