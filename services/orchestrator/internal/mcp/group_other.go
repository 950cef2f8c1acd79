//go:build !unix

package mcp

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

func stopGroup(pid int) { killGroup(pid) }

// killGroup ends the process alone: there are no groups here.
func killGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
