package fsroot

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Stat implements [sandbox.Tree].
func (r *Root) Stat(_ context.Context, path string) (sandbox.Entry, error) { return r.stat(path, 0) }

// Lstat implements [sandbox.Tree].
func (r *Root) Lstat(_ context.Context, path string) (sandbox.Entry, error) {
	return r.stat(path, unix.O_NOFOLLOW)
}

func (r *Root) stat(path string, flags int) (e sandbox.Entry, err error) {
	path, err = clean(path)
	if err != nil {
		return e, err
	}
	err = r.as(func() error {
		fd, err := r.openat(path, unix.O_PATH|flags, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		e = r.entry(path, &st)
		return nil
	})
	return e, translate(path, false, err)
}

// ReadDir implements [sandbox.Tree].
func (r *Root) ReadDir(ctx context.Context, path, after string, limit int) (out []sandbox.Entry, err error) {
	path, err = clean(path)
	if err != nil {
		return nil, err
	}
	err = r.as(func() error {
		fd, err := r.openat(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		dir := os.NewFile(uintptr(fd), path)
		defer dir.Close()
		names, err := dir.Readdirnames(-1)
		if err != nil {
			return err
		}
		slices.Sort(names)
		for _, name := range names {
			if name <= after && after != "" || strings.HasPrefix(name, tempPrefix) {
				continue
			}
			if limit > 0 && len(out) == limit {
				break
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
				continue // deleted meanwhile
			}
			full := name
			if path != "." {
				full = path + "/" + name
			}
			e := r.entry(full, &st)
			if e.Kind == fs.ModeSymlink {
				e.Link = readlink(fd, name)
			}
			out = append(out, e)
		}
		return nil
	})
	return out, translate(path, false, err)
}

func readlink(dirfd int, name string) string {
	buf := make([]byte, maxPath)
	n, err := unix.Readlinkat(dirfd, name, buf)
	if err != nil {
		return ""
	}
	return string(buf[:n])
}

// Open implements [sandbox.Tree]. The type is looked at before the file is opened: opening a pipe or a device has effects of its own.
func (r *Root) Open(_ context.Context, path string) (f sandbox.File, err error) {
	path, err = clean(path)
	if err != nil {
		return nil, err
	}
	err = r.as(func() error {
		fd, _, err := r.regular(path, unix.O_RDONLY)
		if err != nil {
			return err
		}
		f = &file{File: os.NewFile(uintptr(fd), path), root: r, path: path}
		return nil
	})
	return f, translate(path, false, err)
}

// regular opens a regular file beneath the root.
func (r *Root) regular(path string, flags int) (int, *unix.Stat_t, error) {
	handle, err := r.openat(path, unix.O_PATH, 0)
	if err != nil {
		return -1, nil, err
	}
	defer unix.Close(handle)
	var st unix.Stat_t
	if err := unix.Fstat(handle, &st); err != nil {
		return -1, nil, err
	}
	switch kind(st.Mode) {
	case 0:
	case fs.ModeDir:
		return -1, nil, unix.EISDIR
	default:
		return -1, nil, fail(errdefs.ErrFailedPrecondition, ReasonNotRegular, path, "%q is neither a file nor a directory", path)
	}
	fd, err := reopen(handle, flags)
	return fd, &st, err
}

// file is an open regular file.
type file struct {
	*os.File
	root *Root
	path string
}

// Stat describes the open file. The handle has the rights that it was opened with, so no change of user is needed.
func (f *file) Stat() (sandbox.Entry, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return sandbox.Entry{}, translate(f.path, false, err)
	}
	return f.root.entry(f.path, &st), nil
}
