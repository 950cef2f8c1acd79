package templates

import (
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
)

// SettingsFile holds an agent's settings, beside AGENTS.md.
const SettingsFile = "agent.yaml"

// sharedNames are the first names that a shared template shows. What runs write for one user (agents/, large_tool_results/) is not among them.
var sharedNames = map[string]bool{
	"AGENTS.md": true, "MEMORY.md": true, "tools.json": true, SettingsFile: true, "memory": true, "knowledge": true, "skills": true,
	"subagents": true, "plans": true, fsops.IgnoreFile: true,
}

// userNames are the first names that a user's directory shows.
var userNames = map[string]bool{"AGENTS.md": true, "tools.json": true, "knowledge": true, "skills": true, "subagents": true}

// layoutNames are all first names of the layout: no user's directory has one of them.
var layoutNames = map[string]bool{"agents": true, "large_tool_results": true}

func first(p fsops.Path) string {
	name, _, _ := strings.Cut(p.Key(), "/")
	return name
}

func userVisible(p fsops.Path) bool { return userNames[first(p)] }

// include is the globs of paths that a template shows beyond the layout.
type include struct {
	deep []*fsops.Glob // begin with a plain name
	top  []*fsops.Glob // match files of the top directory only
	// patterns as written, but bound to the root.
	patterns []string
}

// newInclude reads globs. One that begins with a wildcard matches files of the top directory only: it could reach into users' directories otherwise.
func newInclude(patterns []string) (include, error) {
	var in include
	for _, pattern := range patterns {
		g, err := fsops.CompileGlob(pattern)
		if err != nil {
			return include{}, err
		}
		if g.Prefix().IsRoot() {
			in.top = append(in.top, g)
			pattern = "/" + strings.TrimPrefix(pattern, "**/")
		} else {
			in.deep = append(in.deep, g)
		}
		in.patterns = append(in.patterns, pattern)
	}
	return in, nil
}

func (in include) visible(p fsops.Path) bool {
	if sharedNames[first(p)] {
		return true
	}
	for _, g := range in.deep {
		if g.Match(p) || g.MayMatchBelow(p) && (p.Key() == g.Prefix().Key() || p.Under(g.Prefix()) || g.Prefix().Under(p)) {
			return true
		}
	}
	for _, g := range in.top {
		if p.Parent().IsRoot() && g.Match(p) {
			return true
		}
	}
	return false
}

// taken says whether a first name means something else than a user.
func (in include) taken(name string) bool {
	if sharedNames[name] || layoutNames[name] {
		return true
	}
	for _, g := range in.deep {
		if first(g.Prefix()) == name {
			return true
		}
	}
	return false
}

// userDirs are the directories of a template in which a user's overrides may be, the preferred first: that of the encoded id, and that of the id as it is
// where it can't be the encoded form of another one.
func (in include) userDirs(user string) []string {
	encoded := identity.EncodeSegment(user)
	if in.taken(encoded) {
		// The escaped form of the first byte is no name of the layout.
		encoded = escapeFirst(encoded)
	}
	dirs := []string{encoded}
	if user != encoded && !in.taken(user) && plainName(user) {
		dirs = append(dirs, user)
	}
	return dirs
}

const hexDigits = "0123456789abcdef"

func escapeFirst(name string) string {
	return "=" + string([]byte{hexDigits[name[0]>>4], hexDigits[name[0]&0xf]}) + name[1:]
}

// plainName says whether an id can be the name of a directory as it is, and is not what another id would be encoded as.
func plainName(id string) bool {
	return len(id) <= fsops.MaxNameBytes && !strings.ContainsAny(id, "/\\=~+\x00") && !strings.HasPrefix(id, ".") && identity.EncodeSegment(id) != id
}
