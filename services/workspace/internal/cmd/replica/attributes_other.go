//go:build !linux

package replica

import "syscall"

func attributes() *syscall.SysProcAttr { return nil }
