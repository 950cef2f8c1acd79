package main

import (
	"bytes"
	"maps"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// file is what the model knows of a file. It is never changed in place.
type file struct {
	content  []byte
	revision string // "" where no answer has told it yet
}

// tree is the model of one worker's part of a bucket: files by the normal form of their path.
type tree map[string]file

func (t tree) clone() tree { return maps.Clone(t) }

// below returns the files below a directory, in order.
func (t tree) below(dir string) []string {
	var out []string
	for p := range t {
		if strings.HasPrefix(p, dir+"/") {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func (t tree) isFile(p string) bool { _, ok := t[p]; return ok }
func (t tree) isDir(p string) bool  { return len(t.below(p)) > 0 }

// blocked says whether a file is above the path.
func (t tree) blocked(p string) bool {
	for i := range p {
		if p[i] == '/' && t.isFile(p[:i]) {
			return true
		}
	}
	return false
}

// missing is the reason why a path can't be used, "" when something is there.
func (t tree) missing(p string) string {
	switch {
	case t.isFile(p) || t.isDir(p):
		return ""
	case t.blocked(p):
		return fsops.ReasonNotADirectory
	}
	return fsops.ReasonPathNotFound
}

// noFile is the reason why a path is no file that could be changed, "" when it is one.
func (t tree) noFile(p string) string {
	if reason := t.missing(p); reason != "" {
		return reason
	}
	if t.isDir(p) {
		return fsops.ReasonIsDirectory
	}
	return ""
}

// noTarget is the reason why a file can't be put at a path, whatever is there, "" when it can.
func (t tree) noTarget(p string) string {
	switch {
	case t.blocked(p):
		return fsops.ReasonNotADirectory
	case t.isDir(p):
		return fsops.ReasonIsDirectory
	}
	return ""
}

// noMove is the reason why a move is refused, "" when it is done. Stays says that nothing is to be done.
func (t tree) noMove(from, to string, overwrite bool) (reason string, stays bool) {
	if reason := t.missing(from); reason != "" {
		return reason, false
	}
	switch {
	case from == to:
		return "", true
	case strings.HasPrefix(to, from+"/"):
		return fsops.ReasonPathInvalid, false
	case t.blocked(to):
		return fsops.ReasonNotADirectory, false
	case t.isDir(to), t.isFile(to) && (t.isDir(from) || !overwrite):
		return fsops.ReasonPathExists, false
	}
	return "", false
}

// event is a change as Watch must tell it. The revision is "" where it is not known.
type event struct{ kind, path, from, revision string }

// group are the events of one call, which may come in any order among themselves.
type group struct {
	call   string
	events []event
}

// same says whether a file holds what the model says.
func (f file) same(content []byte) bool { return bytes.Equal(f.content, content) }

// normal is the form in which the model names paths: look-up compares it.
func normal(p string) string { return norm.NFC.String(p) }
