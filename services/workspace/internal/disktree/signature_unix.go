//go:build unix

package disktree

import (
	"fmt"
	"io/fs"
	"syscall"
)

// Signature tells whether a file is still the one that was looked at: inode, size, and the times of content and inode. The latter changes with every write and
// can't be set, so a file that was put back with its old time differs too.
func Signature(info fs.FileInfo) string {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fmt.Sprintf("%x-%x", info.ModTime().UnixNano(), info.Size())
	}
	return fmt.Sprintf("%x-%x-%x-%x", s.Ino, info.Size(), info.ModTime().UnixNano(), inodeTime(s))
}

// Inode returns the number of the file's inode.
func Inode(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Ino
	}
	return 0
}
