package fsops

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

const (
	// MaxPathBytes bounds a path.
	MaxPathBytes = 4096
	// MaxNameBytes bounds one name of a path.
	MaxNameBytes = 255
	// ReservedName is the first name of the paths that file tools never see: the service's own data.
	ReservedName = ".gantry-runtime"
)

// Path is a place beneath the root of a bucket. The zero value is the root. Two paths name the same place when their keys are equal.
type Path struct {
	raw, key string
}

// ParsePath reads a path of a request: relative to the root, with or without a leading "/". Empty names and "." are dropped and ".." goes
// up, before anything is looked up. PATH_INVALID for a path that leaves the root, holds NUL, is over-long or names a reserved place.
func ParsePath(text string) (Path, error) {
	if len(text) > MaxPathBytes {
		return Path{}, errPath(text, "has over 4096 bytes")
	}
	if strings.IndexByte(text, 0) >= 0 {
		return Path{}, errPath(text, "holds a NUL byte")
	}
	var names []string
	for name := range strings.SplitSeq(text, "/") {
		switch {
		case name == "" || name == ".":
		case name == "..":
			if len(names) == 0 {
				return Path{}, errPath(text, "leaves the root")
			}
			names = names[:len(names)-1]
		case len(name) > MaxNameBytes:
			return Path{}, errPath(text, "has a name of over 255 bytes")
		default:
			names = append(names, name)
		}
	}
	p := PathOf(strings.Join(names, "/"))
	if p.Reserved() {
		return Path{}, errPath(text, "names a reserved place")
	}
	return p, nil
}

// ParseFilePath is [ParsePath] for a path that must name a file: IS_DIRECTORY for the root, PATH_INVALID for a path that ends in "/".
func ParseFilePath(text string) (Path, error) {
	p, err := ParsePath(text)
	switch {
	case err != nil:
		return Path{}, err
	case p.IsRoot():
		return Path{}, ErrIsDirectory("")
	case strings.HasSuffix(text, "/"), strings.HasSuffix(text, "/."), strings.HasSuffix(text, "/.."):
		return Path{}, errPath(text, "names a directory")
	}
	return p, nil
}

// PathOf makes a path of text that is clean already: names joined by "/", as [Path.String] gives it or a store holds it.
func PathOf(clean string) Path {
	return Path{raw: clean, key: norm.NFC.String(clean)}
}

// String returns the path with the bytes under which it was written, without a leading slash. The root is "".
func (p Path) String() string { return p.raw }

// Key returns the path in Unicode NFC. Look-ups compare keys.
func (p Path) Key() string { return p.key }

// IsRoot says whether the path is the root.
func (p Path) IsRoot() bool { return p.key == "" }

// Name returns the last name; "" for the root.
func (p Path) Name() string { return p.raw[strings.LastIndexByte(p.raw, '/')+1:] }

// Parent returns the directory that holds the path. The parent of the root is the root.
func (p Path) Parent() Path {
	return Path{raw: p.raw[:max(strings.LastIndexByte(p.raw, '/'), 0)], key: p.key[:max(strings.LastIndexByte(p.key, '/'), 0)]}
}

// Ancestors returns the directories above the path, the outermost first, without the root.
func (p Path) Ancestors() []Path {
	var above []Path
	for q := p.Parent(); !q.IsRoot(); q = q.Parent() {
		above = append(above, q)
	}
	for i, j := 0, len(above)-1; i < j; i, j = i+1, j-1 {
		above[i], above[j] = above[j], above[i]
	}
	return above
}

// Join returns the path of a clean name, or of names joined by "/", below p.
func (p Path) Join(name string) Path {
	switch {
	case name == "":
		return p
	case p.IsRoot():
		return PathOf(name)
	}
	return Path{raw: p.raw + "/" + name, key: p.key + "/" + norm.NFC.String(name)}
}

// Under says whether p lies below dir. No path lies below itself; every other path lies below the root.
func (p Path) Under(dir Path) bool {
	if dir.IsRoot() {
		return !p.IsRoot()
	}
	return len(p.key) > len(dir.key) && p.key[len(dir.key)] == '/' && p.key[:len(dir.key)] == dir.key
}

// Rebase returns where p, which is from or lies below it, is after from was moved to to.
func (p Path) Rebase(from, to Path) Path {
	if from.IsRoot() && to.IsRoot() {
		return p
	}
	names := strings.Split(p.raw, "/")
	depth := 0
	if !from.IsRoot() {
		depth = strings.Count(from.key, "/") + 1
	}
	return to.Join(strings.Join(names[depth:], "/"))
}

// MarshalBinary implements encoding.BinaryMarshaler, for records that outlive the process.
func (p Path) MarshalBinary() ([]byte, error) { return []byte(p.raw), nil }

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (p *Path) UnmarshalBinary(data []byte) error {
	*p = PathOf(string(data))
	return nil
}

// Reserved says whether the path is, or lies below, the reserved place. Letter case does not matter, since it doesn't on every disk.
func (p Path) Reserved() bool {
	first, _, _ := strings.Cut(p.key, "/")
	return strings.EqualFold(first, ReservedName)
}

// Text returns a name or path as valid UTF-8, wrong bytes replaced by U+FFFD, and whether that changed it.
func Text(path string) (text string, changed bool) {
	if utf8.ValidString(path) {
		return path, false
	}
	return strings.ToValidUTF8(path, "\uFFFD"), true
}

// clip keeps foreign text short, and valid UTF-8, in messages.
func clip(text string) string {
	const most = 200
	text, _ = Text(text)
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
