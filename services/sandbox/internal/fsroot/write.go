package fsroot

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// tempPrefix begins the names of files that are being written. Listings leave them out.
const tempPrefix = ".gantry-write-"

// maxLinks bounds how many links the last name of a written path may go through.
const maxLinks = 16

// Write implements [sandbox.Tree]. The content is first written to a file beside the target; the rename is the only visible change.
func (r *Root) Write(ctx context.Context, name string, content io.Reader, opt sandbox.WriteOptions) (e sandbox.Entry, err error) {
	name, err = clean(name)
	if err != nil {
		return e, err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	err = r.as(func() error {
		target, old, err := r.writable(name)
		if err != nil {
			return err
		}
		if err := r.check(target, old, opt); err != nil {
			return err
		}
		dir, base, err := split(target)
		if err != nil {
			return err
		}
		parent, err := r.makeDirs(dir, 0o755)
		if err != nil {
			return err
		}
		defer unix.Close(parent)
		mode := opt.Mode.Perm()
		switch {
		case mode == 0 && old != nil:
			mode = fs.FileMode(old.Mode & 0o777)
		case mode == 0:
			mode = 0o644
		}
		st, err := r.replace(ctx, parent, base, content, mode, opt)
		if err != nil {
			return err
		}
		e = r.entry(name, st)
		return nil
	})
	return e, translate(name, true, err)
}

// writable follows links at the end of a path by hand, so that writing through a link changes its target and keeps the link. It returns the path to
// write and what is there, or nil.
func (r *Root) writable(name string) (string, *unix.Stat_t, error) {
	for range maxLinks {
		dir, base, err := split(name)
		if err != nil {
			return "", nil, err
		}
		parent, err := r.openDir(dir)
		if errors.Is(err, unix.ENOENT) {
			return name, nil, nil
		}
		if err != nil {
			return "", nil, err
		}
		var st unix.Stat_t
		err = unix.Fstatat(parent, base, &st, unix.AT_SYMLINK_NOFOLLOW)
		link := ""
		if err == nil && kind(st.Mode) == fs.ModeSymlink {
			link = readlink(parent, base)
		}
		_ = unix.Close(parent)
		switch {
		case errors.Is(err, unix.ENOENT):
			return name, nil, nil
		case err != nil:
			return "", nil, err
		case kind(st.Mode) == fs.ModeDir:
			return "", nil, unix.EISDIR
		case kind(st.Mode) == 0:
			return name, &st, nil
		case kind(st.Mode) != fs.ModeSymlink:
			return "", nil, fail(errdefs.ErrFailedPrecondition, ReasonNotRegular, name, "%q is neither a file nor a directory", name)
		case link == "" || path.IsAbs(link):
			return "", nil, unix.EXDEV
		}
		if name, err = clean(dir + "/" + link); err != nil {
			return "", nil, unix.EXDEV
		}
	}
	return "", nil, unix.ELOOP
}

// check applies the conditions of a write to what is there.
func (r *Root) check(name string, old *unix.Stat_t, opt sandbox.WriteOptions) error {
	if opt.CreateOnly && old != nil {
		return unix.EEXIST
	}
	if opt.IfRevision == "" {
		return nil
	}
	have := ""
	if old != nil {
		have = r.entry(name, old).Revision
	}
	if have == opt.IfRevision {
		return nil
	}
	err := errdefs.New(errdefs.ErrAborted, Domain, ReasonRevisionConflict, "%q is not at the revision that was expected", name)
	return err.With("path", name).With("revision", have)
}

// replace writes content beside base and moves it there.
func (r *Root) replace(ctx context.Context, parent int, base string, content io.Reader, mode fs.FileMode, opt sandbox.WriteOptions) (*unix.Stat_t, error) {
	temp := tempPrefix + rand.Text()
	fd, err := unix.Openat(parent, temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), temp)
	defer f.Close()
	done := false
	defer func() {
		if !done {
			_ = unix.Unlinkat(parent, temp, 0)
		}
	}()
	if err := copyBounded(ctx, f, content, opt.MaxBytes); err != nil {
		return nil, err
	}
	if err := f.Chmod(mode); err != nil {
		return nil, err
	}
	if r.opt.Sync {
		if err := f.Sync(); err != nil {
			return nil, err
		}
	}
	flags := uint(0)
	if opt.CreateOnly {
		flags = unix.RENAME_NOREPLACE
	}
	if err := unix.Renameat2(parent, temp, parent, base, flags); err != nil {
		return nil, err
	}
	done = true
	var st unix.Stat_t
	return &st, unix.Fstat(fd, &st)
}

// copyBounded copies at most limit bytes and stops when the caller is gone.
func copyBounded(ctx context.Context, dst io.Writer, src io.Reader, limit int64) error {
	buf := make([]byte, 64<<10)
	var n int64
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		k, err := src.Read(buf)
		n += int64(k)
		if limit > 0 && n > limit {
			return errdefs.New(errdefs.ErrResourceExhausted, Domain, ReasonTooLarge, "the content has more than %d bytes", limit)
		}
		if k > 0 {
			if _, err := dst.Write(buf[:k]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// Append implements [sandbox.Tree]. A write that did not fit is taken back.
func (r *Root) Append(ctx context.Context, name string, content []byte, newline bool) (e sandbox.Entry, offset int64, err error) {
	name, err = clean(name)
	if err != nil {
		return e, 0, err
	}
	r.lock.Lock()
	defer r.lock.Unlock()
	err = r.as(func() error {
		target, old, err := r.writable(name)
		if err != nil {
			return err
		}
		if old == nil {
			dir, base, err := split(target)
			if err != nil {
				return err
			}
			parent, err := r.makeDirs(dir, 0o755)
			if err != nil {
				return err
			}
			defer unix.Close(parent)
			st, err := r.replace(ctx, parent, base, strings.NewReader(string(content)), 0o644, sandbox.WriteOptions{})
			if err != nil {
				return err
			}
			e = r.entry(name, st)
			return nil
		}
		fd, before, err := r.regular(target, unix.O_RDWR|unix.O_APPEND)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), target)
		defer f.Close()
		offset = before.Size
		var last [1]byte
		if newline && before.Size > 0 {
			if _, err := f.ReadAt(last[:], before.Size-1); err == nil && last[0] != '\n' {
				content = append([]byte{'\n'}, content...)
				offset++
			}
		}
		if _, err := f.Write(content); err != nil {
			return errors.Join(err, f.Truncate(before.Size))
		}
		if r.opt.Sync {
			if err := f.Sync(); err != nil {
				return err
			}
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		e = r.entry(name, &st)
		return nil
	})
	return e, offset, translate(name, true, err)
}
