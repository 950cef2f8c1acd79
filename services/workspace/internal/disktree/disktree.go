// Package disktree reads a directory of the host as a [files.Tree]: a template that engineers keep, or the plain files of a bucket.
//
// Everything is opened beneath a root handle, so that links and races can't lead out. Links inside the root work: a link to a file is that file, a link to a directory can be
// entered by its path, but listings don't descend into it. Links that lead out, devices, sockets and pipes are not listed, and are errors when they are asked
// for. Names keep their bytes; look-up compares NFC.
package disktree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"golang.org/x/text/unicode/norm"
)

// AuthorOutside is the author of what did not pass through the service.
const AuthorOutside = "outside"

// Tree reads a directory. The reserved place is never in it.
type Tree struct {
	root *os.Root
	// visible says whether a path is part of the tree; nil: all are. A hidden directory hides what is below it.
	visible func(p fsops.Path) bool
	// author of the nodes.
	author string
}

var _ files.Tree = (*Tree)(nil)

// New returns the tree beneath a root. With visible, only what it accepts is part of the tree: it is asked for each path and for the directories above.
func New(root *os.Root, visible func(fsops.Path) bool) *Tree {
	return &Tree{root: root, visible: visible, author: AuthorOutside}
}

// Get implements [files.Tree].
func (t *Tree) Get(ctx context.Context, paths ...fsops.Path) ([]files.Node, error) {
	out := make([]files.Node, len(paths))
	for i, p := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		n, err := t.node(p)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

// node looks at one path.
func (t *Tree) node(p fsops.Path) (files.Node, error) {
	if p.IsRoot() {
		return files.Node{Kind: files.KindDir, Mode: 0o755}, nil
	}
	if !t.sees(p) {
		return files.Node{}, nil
	}
	spelled, ok, err := t.Spell(p)
	if err != nil || !ok {
		return files.Node{}, err
	}
	info, err := t.root.Stat(spelled.String())
	if err != nil {
		return files.Node{}, missing(pathError(p, err))
	}
	if info.Mode()&fs.ModeType&^fs.ModeDir != 0 {
		return files.Node{}, fsops.ErrNotRegular(p.String())
	}
	return t.describe(spelled, info), nil
}

// describe makes the node of a regular file or directory.
func (t *Tree) describe(p fsops.Path, info fs.FileInfo) files.Node {
	n := files.Node{Path: p, Kind: files.KindFile, Mode: uint32(info.Mode().Perm()), ModTime: info.ModTime().UTC(), Author: t.author}
	if info.IsDir() {
		n.Kind = files.KindDir
		return n
	}
	n.Size = info.Size()
	n.Ref = Signature(info)
	n.Revision = OutsideRevision(n.Ref)
	return n
}

// sees says whether the tree has room for a path at all.
func (t *Tree) sees(p fsops.Path) bool {
	if p.Reserved() {
		return false
	}
	if t.visible == nil {
		return true
	}
	for _, dir := range p.Ancestors() {
		if !t.visible(dir) {
			return false
		}
	}
	return t.visible(p)
}

// Spell finds the name under which a path is on the disk: as asked for, or in another normal form. False when nothing is there.
func (t *Tree) Spell(p fsops.Path) (fsops.Path, bool, error) {
	_, err := t.root.Lstat(onDisk(p))
	if err == nil {
		return p, true, nil
	}
	if err := missing(pathError(p, err)); err != nil {
		return p, false, err
	}
	if isASCII(p.String()) {
		return p, false, nil
	}
	var at fsops.Path
	for name := range strings.SplitSeq(p.String(), "/") {
		next := at.Join(name)
		if _, err := t.root.Lstat(next.String()); err != nil {
			found, err := t.otherForm(at, name)
			if err != nil || found == "" {
				return p, false, missing(pathError(p, err))
			}
			next = at.Join(found)
		}
		at = next
	}
	return at, true, nil
}

// otherForm finds the entry of a directory whose name is name in another normal form; "" when there is none.
func (t *Tree) otherForm(dir fsops.Path, name string) (string, error) {
	if isASCII(name) {
		return "", nil
	}
	entries, err := readDir(t.root, onDisk(dir))
	if err != nil {
		return "", err
	}
	key := norm.NFC.String(name)
	for _, e := range entries {
		if norm.NFC.String(e.Name()) == key {
			return e.Name(), nil
		}
	}
	return "", nil
}

func readDir(root *os.Root, name string) ([]fs.DirEntry, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// onDisk is the path as the root handle takes it.
func onDisk(p fsops.Path) string {
	if p.IsRoot() {
		return "."
	}
	return p.String()
}

// Open implements [files.Tree].
func (t *Tree) Open(ctx context.Context, n files.Node) (files.Content, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f, err := t.root.OpenFile(n.Path.String(), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, pathError(n.Path, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = pathError(n.Path, err)
	case !info.Mode().IsRegular():
		err = fsops.ErrNotRegular(n.Path.String())
	case n.Ref != "" && Signature(info) != n.Ref:
		err = files.ErrChanged
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return &content{File: f, size: info.Size()}, nil
}

// Load implements [files.Tree].
func (t *Tree) Load(ctx context.Context, nodes ...files.Node) ([][]byte, error) {
	out := make([][]byte, len(nodes))
	for i, n := range nodes {
		c, err := t.Open(ctx, n)
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			continue // gone, changed or unreadable: the caller looks at it alone
		}
		data := make([]byte, c.Size())
		if _, err := io.ReadFull(files.NewReader(ctx, c, 0), data); err == nil {
			out[i] = data
		}
		c.Close()
	}
	return out, nil
}

// content is an open file. Its size stays that of the moment of opening; it is replaced as a whole and only ever grows in place.
type content struct {
	*os.File
	size int64
}

// Size implements [files.Content].
func (c *content) Size() int64 { return c.size }

// missing turns NOT_FOUND into nothing.
func missing(err error) error {
	if errors.Is(err, errdefs.ErrNotFound) {
		return nil
	}
	return err
}

// pathError is the typed error of an error of the system. A path that goes through a file counts as not there: the view says which file is in the way.
func pathError(p fsops.Path, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return fsops.ErrNotFound(p.String())
	case errors.Is(err, syscall.ELOOP):
		return fsops.ErrNotRegular(p.String())
	case errors.Is(err, syscall.ENAMETOOLONG):
		return fsops.ErrNameUnsupported(p.String(), "the name is too long for the disk")
	case errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EILSEQ):
		return fsops.ErrNameUnsupported(p.String(), "the disk can't hold the name")
	case escapes(err):
		return fsops.ErrOutsideRoot(p.String())
	case errors.Is(err, fs.ErrPermission):
		return errdefs.New(errdefs.ErrPermissionDenied, fsops.Domain, fsops.ReasonReadOnly, "the service may not read %q: %w", p.String(), err).
			With("path", p.String())
	}
	return errdefs.Wrap(err, errdefs.ErrUnavailable, fsops.Domain, "", "the disk can't be read")
}

// escapes says whether an error of a root handle means that a link leads out. The standard library has no name for it.
func escapes(err error) bool {
	pe, ok := errors.AsType[*fs.PathError](err)
	return ok && strings.Contains(pe.Err.Error(), "escapes")
}

func isASCII(text string) bool {
	return !slices.ContainsFunc([]byte(text), func(c byte) bool { return c >= 0x80 })
}
