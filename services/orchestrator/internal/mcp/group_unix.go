//go:build unix

package mcp

import "syscall"

// ownGroup lets a process be ended together with those that it starts, and keeps signals of a terminal from it.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func stopGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGTERM) }

func killGroup(pid int) { _ = syscall.Kill(-pid, syscall.SIGKILL) }
