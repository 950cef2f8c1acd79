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

// apply carries a step out on the disk and returns the signature of the file afterwards. A step that was carried out before is not carried out again.
func (s *Store) apply(root *os.Root, st step) (signature string, err error) {
	switch st.Op {
	case opPut:
		err = s.put(root, st)
	case opAppend:
		err = s.append(root, st)
	case opRename:
		err = rename(root, st)
	case opRemove:
		return "", remove(root, st.Path)
	default:
		return "", nil
	}
	if err != nil {
		return "", err
	}
	info, err := root.Stat(st.Path.String())
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil // a later step, or somebody outside, has taken it away
	}
	if err != nil {
		return "", err
	}
	return disktree.Signature(info), nil
}

// put renames staged content into place. Content that is not in the staging directory any more is in place.
func (s *Store) put(root *os.Root, st step) error {
	staged := filepath.Join(s.stage, st.Staged)
	if _, err := os.Lstat(staged); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := errors.Join(os.Chmod(staged, fs.FileMode(st.Node.Mode)), os.Chtimes(staged, st.Node.ModTime, st.Node.ModTime)); err != nil {
		return err
	}
	dir, err := makeDirs(root, st.Path.Parent())
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Renameat(unix.AT_FDCWD, staged, int(dir.Fd()), st.Path.Name())
	if errors.Is(err, syscall.EXDEV) {
		err = s.putAcross(root, st, staged, dir)
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: st.Path.String(), Err: err}
	}
	return dir.Sync()
}

// putAcross is put for a directory on another disk than the staging directory: the content is copied to a file beside its place first.
func (s *Store) putAcross(root *os.Root, st step, staged string, dir *os.File) error {
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
		err = dir.Sync()
	}
	if err != nil {
		return err
	}
	return os.Remove(staged)
}

// append writes staged content at its offset: a second time it writes the same bytes to the same place.
func (s *Store) append(root *os.Root, st step) error {
	staged := filepath.Join(s.stage, st.Staged)
	in, err := os.Open(staged)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := root.OpenFile(st.Path.String(), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.NewOffsetWriter(out, st.Offset), in)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err == nil {
		err = root.Chtimes(st.Path.String(), st.Node.ModTime, st.Node.ModTime)
	}
	return err
}

// rename moves a file, unless another one has its name by now: then it was moved before.
func rename(root *os.Root, st step) error {
	info, err := root.Lstat(st.From.String())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// A link is renamed as a link; the node knew the file behind it.
	if st.Inode != 0 && info.Mode().IsRegular() && disktree.Inode(info) != st.Inode {
		return nil
	}
	dir, err := makeDirs(root, st.Path.Parent())
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := root.Rename(st.From.String(), st.Path.String()); err != nil {
		return err
	}
	if err := dir.Sync(); err != nil {
		return err
	}
	return prune(root, st.From.Parent())
}

// remove removes a file, and the directories above that it leaves empty.
func remove(root *os.Root, p fsops.Path) error {
	if err := root.Remove(p.String()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return prune(root, p.Parent())
}

// prune removes a directory that is empty, and those above, and syncs the first one that stays.
func prune(root *os.Root, dir fsops.Path) error {
	for !dir.IsRoot() {
		if err := root.Remove(dir.String()); err != nil {
			break // not empty, or not ours to remove: it stays
		}
		dir = dir.Parent()
	}
	f, err := root.Open(onDisk(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// makeDirs makes a directory with those above, each made durable in the one that holds it, and opens it.
func makeDirs(root *os.Root, dir fsops.Path) (*os.File, error) {
	made := false
	for _, d := range append(dir.Ancestors(), dir) {
		if d.IsRoot() {
			continue
		}
		err := root.Mkdir(d.String(), 0o755)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		made = made || err == nil
	}
	if made {
		for d := dir.Parent(); ; d = d.Parent() {
			f, err := root.Open(onDisk(d))
			if err == nil {
				err = errors.Join(f.Sync(), f.Close())
			}
			if err != nil {
				return nil, err
			}
			if d.IsRoot() {
				break
			}
		}
	}
	return root.Open(onDisk(dir))
}

func onDisk(p fsops.Path) string {
	if p.IsRoot() {
		return "."
	}
	return p.String()
}
