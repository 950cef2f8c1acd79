package fsroot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Mkdir implements [sandbox.Tree].
func (r *Root) Mkdir(_ context.Context, path string) error {
	path, err := clean(path)
	if err != nil {
		return err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	return translate(path, true, r.as(func() error {
		fd, err := r.makeDirs(path, 0o755)
		if err != nil {
			return err
		}
		return unix.Close(fd)
	}))
}

// Remove implements [sandbox.Tree]. A link is removed, never what it points to.
func (r *Root) Remove(ctx context.Context, path string, recursive bool) error {
	path, err := clean(path)
	if err != nil {
		return err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	return translate(path, true, r.as(func() error {
		dir, name, err := split(path)
		if err != nil {
			return err
		}
		parent, err := r.openDir(dir)
		if err != nil {
			return err
		}
		defer unix.Close(parent)
		return remove(ctx, parent, name, recursive)
	}))
}

func remove(ctx context.Context, parent int, name string, recursive bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	err := unix.Unlinkat(parent, name, 0)
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return err
	}
	var st unix.Stat_t
	if e := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); e != nil || kind(st.Mode) != fs.ModeDir {
		return err
	}
	if recursive {
		fd, err := unix.Openat(parent, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		dir := os.NewFile(uintptr(fd), name)
		names, err := dir.Readdirnames(-1)
		for _, n := range names {
			if err == nil {
				err = remove(ctx, fd, n, true)
			}
		}
		if err = errors.Join(err, dir.Close()); err != nil {
			return err
		}
	}
	return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
}

// Rename implements [sandbox.Tree].
func (r *Root) Rename(_ context.Context, from, to string, replace bool) error {
	from, err := clean(from)
	if err != nil {
		return err
	}
	if to, err = clean(to); err != nil {
		return err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	return r.as(func() error {
		fromDir, fromName, err := split(from)
		if err != nil {
			return err
		}
		toDir, toName, err := split(to)
		if err != nil {
			return err
		}
		source, err := r.openDir(fromDir)
		if err != nil {
			return translate(from, true, err)
		}
		defer unix.Close(source)
		var st unix.Stat_t
		if err := unix.Fstatat(source, fromName, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return translate(from, true, err)
		}
		target, err := r.makeDirs(toDir, 0o755)
		if err != nil {
			return translate(to, true, err)
		}
		defer unix.Close(target)
		flags := uint(unix.RENAME_NOREPLACE)
		if replace {
			flags = 0
		}
		err = unix.Renameat2(source, fromName, target, toName, flags)
		if errors.Is(err, unix.EINVAL) {
			return fail(errdefs.ErrInvalidArgument, ReasonPathInvalid, to, "%q is inside %q", to, from)
		}
		return translate(to, true, err)
	})
}

// Symlink implements [sandbox.Tree].
func (r *Root) Symlink(_ context.Context, target, path string) error {
	path, err := clean(path)
	if err != nil {
		return err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	return translate(path, true, r.as(func() error {
		dir, name, err := split(path)
		if err != nil {
			return err
		}
		parent, err := r.makeDirs(dir, 0o755)
		if err != nil {
			return err
		}
		defer unix.Close(parent)
		return unix.Symlinkat(target, parent, name)
	}))
}

// SetMode implements [sandbox.Tree].
func (r *Root) SetMode(_ context.Context, path string, mode fs.FileMode, modTime time.Time) error {
	path, err := clean(path)
	if err != nil {
		return err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	return translate(path, true, r.as(func() error {
		fd, err := r.openat(path, unix.O_PATH, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		handle := "/proc/self/fd/" + strconv.Itoa(fd)
		if !modTime.IsZero() {
			t := unix.NsecToTimespec(modTime.UnixNano())
			if err := unix.UtimesNanoAt(unix.AT_FDCWD, handle, []unix.Timespec{t, t}, 0); err != nil {
				return err
			}
		}
		return unix.Chmod(handle, uint32(mode.Perm()))
	}))
}

// Usage implements [sandbox.Tree]. It counts the whole file system, which is right where the workspace is one of its own.
func (r *Root) Usage(context.Context) (u sandbox.Usage, err error) {
	u.LimitBytes, u.LimitEntries, u.LimitFileBytes = r.opt.LimitBytes, r.opt.LimitEntries, r.opt.LimitFileBytes
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(r.dir.Fd()), &st); err != nil {
		return u, translate(".", false, err)
	}
	u.Bytes = int64(st.Blocks-st.Bfree) * st.Bsize
	u.Entries = int64(st.Files - st.Ffree)
	return u, nil
}
