package replica

import "syscall"

// attributes let the process die with this program, and keep the terminal's interrupt from it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
