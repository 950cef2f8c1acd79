//go:build !linux

package procs

import "os/exec"

type launcher struct{}

func newLauncher() *launcher { return &launcher{} }

func (*launcher) start(cmd *exec.Cmd) error { return cmd.Start() }

func (*launcher) close() {}
