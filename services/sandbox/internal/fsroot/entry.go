package fsroot

import (
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// entry describes what fstat found. The revision holds inode and change time: every atomic write makes a new inode, every other change moves the time.
func (r *Root) entry(path string, st *unix.Stat_t) sandbox.Entry {
	e := sandbox.Entry{
		Path: path, Kind: kind(st.Mode), Mode: fs.FileMode(st.Mode & 0o777), Size: st.Size,
		ModTime:  time.Unix(st.Mtim.Unix()),
		Revision: fmt.Sprintf("%x-%x-%x", st.Ino, st.Ctim.Nano(), st.Size),
		ReadOnly: r.opt.CommandUID >= 0 && int(st.Uid) != r.opt.CommandUID,
	}
	if path == "." {
		e.Path = ""
	}
	if e.Kind == fs.ModeDir {
		e.Size, e.Revision = 0, ""
	}
	return e
}

func kind(mode uint32) fs.FileMode {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return 0
	case unix.S_IFDIR:
		return fs.ModeDir
	case unix.S_IFLNK:
		return fs.ModeSymlink
	case unix.S_IFIFO:
		return fs.ModeNamedPipe
	case unix.S_IFSOCK:
		return fs.ModeSocket
	}
	return fs.ModeDevice
}
