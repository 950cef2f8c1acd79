package local

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/disktree"
)

// applier carries out the steps of one intent on the directory of a space. Directories are synced at the end, each once, by their names on the disk and in the root.
type applier struct {
	store *Store
	root  *os.Root
	dirs  map[string]bool // in the root
	syncs map[string]bool // elsewhere
}

func (s *Store) newApplier(root *os.Root) *applier {
	return &applier{store: s, root: root, dirs: map[string]bool{}, syncs: map[string]bool{}}
}

// apply carries a step out on the disk. A step that was carried out before is not carried out again: the file that it is about is not in its place any more.
func (a *applier) apply(st step) (err error) {
	switch st.Op {
	case opAppend:
		return a.append(st)
	case opPut, opRename, opRemove:
		err = a.keep(st)
	default:
		return nil
	}
	switch {
	case err != nil:
		return err
	case st.Op == opPut:
		return a.put(st)
	case st.Op == opRename:
		return a.rename(st)
	}
	return a.remove(st)
}

// sync makes the names of the files durable.
func (a *applier) sync() error {
	for dir := range a.dirs {
		f, err := a.root.Open(dir)
		if isGone(err) {
			continue // a later step, or somebody outside, has taken it away
		}
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return err
		}
	}
	for dir := range a.syncs {
		f, err := os.Open(dir)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// signature returns the signature of the file of a step, after all steps.
func (a *applier) signature(st step) (string, error) {
	switch st.Op {
	case opPut, opAppend, opRename:
	default:
		return "", nil
	}
	info, err := a.root.Stat(st.Path.String())
	if isGone(err) {
		return "", nil // a later step, or somebody outside, has taken it away
	}
	if err != nil {
		return "", err
	}
	return disktree.Signature(info), nil
}

// put renames staged content into place. Content that is not in the staging directory any more is in place.
func (a *applier) put(st step) error {
	staged := filepath.Join(a.store.stage, st.Staged)
	if _, err := os.Lstat(staged); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := errors.Join(os.Chmod(staged, fs.FileMode(st.Node.Mode)), os.Chtimes(staged, st.Node.ModTime, st.Node.ModTime)); err != nil {
		return err
	}
	dir, err := a.makeDirs(st.Path.Parent())
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Renameat(unix.AT_FDCWD, staged, int(dir.Fd()), st.Path.Name())
	if errors.Is(err, syscall.EXDEV) {
		err = a.putAcross(st, staged)
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: st.Path.String(), Err: err}
	}
	return nil
}

// putAcross is put for a directory on another disk than the staging directory: the content is copied to a file beside its place first.
func (a *applier) putAcross(st step, staged string) error {
	root := a.root
	if err := root.MkdirAll(fsops.ReservedName, 0o700); err != nil {
		return err
	}
	temp := fsops.ReservedName + "/" + st.Staged
	out, err := root.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, fs.FileMode(st.Node.Mode))
	if err != nil {
		return err
	}
	in, err := os.Open(staged)
	if err == nil {
		_, err = io.Copy(out, in)
		err = errors.Join(err, in.Close())
	}
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = errors.Join(root.Chmod(temp, fs.FileMode(st.Node.Mode)), root.Chtimes(temp, st.Node.ModTime, st.Node.ModTime))
	}
	if err == nil {
		err = root.Rename(temp, st.Path.String())
	}
	if err == nil {
		// The copy must be durable before the original goes.
		err = a.sync()
	}
	if err != nil {
		return err
	}
	return os.Remove(staged)
}

// append writes staged content at its offset: a second time it writes the same bytes to the same place.
func (a *applier) append(st step) error {
	staged := filepath.Join(a.store.stage, st.Staged)
	in, err := os.Open(staged)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := a.root.OpenFile(st.Path.String(), os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if st.Moves && (isGone(err) || errors.Is(err, syscall.EISDIR)) {
		return nil // a later step has moved it
	}
	if err != nil {
		return err
	}
	if info, err := out.Stat(); err != nil || st.Moves && disktree.Inode(info) != st.Inode {
		return errors.Join(err, out.Close())
	}
	_, err = io.Copy(io.NewOffsetWriter(out, st.Offset), in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = a.root.Chtimes(st.Path.String(), st.Node.ModTime, st.Node.ModTime)
	}
	return err
}

// rename moves a file, unless another one has its name by now: then it was moved before.
func (a *applier) rename(st step) error {
	info, err := a.root.Lstat(st.From.String())
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if another(info, st.Inode) {
		return nil
	}
	dir, err := a.makeDirs(st.Path.Parent())
	if err != nil {
		return err
	}
	if err := errors.Join(a.root.Rename(st.From.String(), st.Path.String()), dir.Close()); err != nil {
		return err
	}
	a.prune(st.From.Parent())
	return nil
}

// another says whether a name has something else than the file with that inode. A link counts as what it leads to: the node knew the file behind it.
func another(info fs.FileInfo, inode uint64) bool {
	return info.IsDir() || inode != 0 && info.Mode().IsRegular() && disktree.Inode(info) != inode
}

// isGone says whether an error is that nothing has the name: it has gone, or a file has come where its directory was.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) }

// remove removes a file, and the directories above that it leaves empty. Another file that has its name by now stays.
func (a *applier) remove(st step) error {
	info, err := a.root.Lstat(st.Path.String())
	if err == nil && another(info, st.Inode) {
		return nil
	}
	if err == nil {
		err = a.root.Remove(st.Path.String())
	}
	if err != nil && !isGone(err) {
		return err
	}
	a.prune(st.Path.Parent())
	return nil
}

// prune removes a directory that is empty, and those above.
func (a *applier) prune(dir fsops.Path) {
	for !dir.IsRoot() {
		above, err := a.root.Open(onDisk(dir.Parent()))
		if err == nil {
			err = errors.Join(unix.Unlinkat(int(above.Fd()), dir.Name(), unix.AT_REMOVEDIR), above.Close())
		}
		if err != nil && !isGone(err) {
			break // not empty, or not ours to remove: it stays
		}
		dir = dir.Parent()
	}
	a.dirs[onDisk(dir)] = true
}

// makeDirs makes a directory with those above, and opens it.
func (a *applier) makeDirs(dir fsops.Path) (*os.File, error) {
	for _, d := range append(dir.Ancestors(), dir) {
		if d.IsRoot() {
			continue
		}
		err := a.root.Mkdir(d.String(), 0o755)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err == nil {
			a.dirs[onDisk(d.Parent())] = true
		}
	}
	a.dirs[onDisk(dir)] = true
	return a.root.Open(onDisk(dir))
}

func onDisk(p fsops.Path) string {
	if p.IsRoot() {
		return "."
	}
	return p.String()
}
