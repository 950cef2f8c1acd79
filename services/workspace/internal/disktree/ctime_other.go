//go:build unix && !linux

package disktree

import "syscall"

func inodeTime(*syscall.Stat_t) int64 { return 0 }
