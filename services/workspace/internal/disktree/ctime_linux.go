package disktree

import "syscall"

func inodeTime(s *syscall.Stat_t) int64 { return s.Ctim.Nano() }
