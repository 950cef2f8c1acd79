package procs

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// launcher starts processes on one thread that lives as long as the launcher: the kernel sends the signal of Pdeathsig when
// the thread that started a process ends, which for Go's threads can be any time.
type launcher struct {
	work chan func()
	once sync.Once
}

func newLauncher() *launcher {
	l := &launcher{work: make(chan func())}
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for f := range l.work {
			f()
		}
	}()
	return l
}

func (l *launcher) start(cmd *exec.Cmd) error {
	// An interrupt from the terminal is for the program that started us; it stops the others in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM, Setpgid: true}
	result := make(chan error)
	l.work <- func() { result <- cmd.Start() }
	return <-result
}

func (l *launcher) close() { l.once.Do(func() { close(l.work) }) }
