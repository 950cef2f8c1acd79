package testkit

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// T is what a suite needs of a test: a testing.TB that has subtests.
type T interface {
	testing.TB
	// Run runs f as a subtest and says whether it passed.
	Run(name string, f func(T)) bool
	// Parallel lets a subtest run beside others; under Failures it does nothing.
	Parallel()
}

// Wrap makes a T of a test.
func Wrap(t *testing.T) T { return wrapped{t} }

type wrapped struct{ *testing.T }

func (w wrapped) Run(name string, f func(T)) bool {
	w.Helper()
	return w.T.Run(name, func(t *testing.T) { f(wrapped{t}) })
}

// Failures runs a suite without failing the calling test and returns what it found wrong: one line a failure, beginning
// with the name of the subtest. No line means that the suite passed. A skipped subtest is no failure, a panic is one.
//
//	if len(testkit.Failures(func(t testkit.T) { storetest.Run(t, lossyStore) })) == 0 {
//		t.Error("the suite does not notice a lost write")
//	}
func Failures(suite func(T)) []string {
	log := &failureLog{}
	newRecorder(log, "suite").run(suite)
	return log.lines
}

// maxFailures bounds what one run of a suite reports.
const maxFailures = 1000

type failureLog struct {
	mu    sync.Mutex
	lines []string
}

func (l *failureLog) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.lines) < maxFailures {
		l.lines = append(l.lines, line)
	}
}

// recorder is a testing.TB that keeps what it is told. The embedded TB is nil: it is there for the method that keeps
// others from implementing the interface, and every other method is defined here.
type recorder struct {
	testing.TB
	name   string
	log    *failureLog
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	failed   bool
	skipped  bool
	cleanups []func()
	subtests int
}

func newRecorder(log *failureLog, name string) *recorder {
	r := &recorder{log: log, name: name}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// run runs f the way the testing package does: on a goroutine of its own, which FailNow ends.
func (r *recorder) run(f func(T)) bool {
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer r.clean()
		defer r.recover()
		f(r)
	}()
	<-done
	return !r.Failed()
}

func (r *recorder) recover() {
	if p := recover(); p != nil {
		r.report(fmt.Sprintf("panic: %v", p))
	}
}

// clean runs the clean-ups in reverse. One that fails or ends its goroutine does not keep the others from running.
func (r *recorder) clean() {
	r.cancel()
	for {
		r.mu.Lock()
		n := len(r.cleanups)
		if n == 0 {
			r.mu.Unlock()
			return
		}
		f := r.cleanups[n-1]
		r.cleanups = r.cleanups[:n-1]
		r.mu.Unlock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer r.recover()
			f()
		}()
		<-done
	}
}

func (r *recorder) report(text string) {
	r.mu.Lock()
	r.failed = true
	r.mu.Unlock()
	r.log.add(r.name + ": " + strings.TrimSpace(text))
}

func (r *recorder) Run(name string, f func(T)) bool {
	r.mu.Lock()
	r.subtests++
	if name == "" {
		name = fmt.Sprintf("#%02d", r.subtests)
	}
	r.mu.Unlock()
	ok := newRecorder(r.log, r.name+"/"+strings.ReplaceAll(name, " ", "_")).run(f)
	if !ok {
		r.mu.Lock()
		r.failed = true
		r.mu.Unlock()
	}
	return ok
}

func (r *recorder) Parallel()                         {}
func (r *recorder) Helper()                           {}
func (r *recorder) Name() string                      { return r.name }
func (r *recorder) Log(...any)                        {}
func (r *recorder) Logf(string, ...any)               {}
func (r *recorder) Attr(string, string)               {}
func (r *recorder) Output() io.Writer                 { return io.Discard }
func (r *recorder) Context() context.Context          { return r.ctx }
func (r *recorder) Error(args ...any)                 { r.report(fmt.Sprintln(args...)) }
func (r *recorder) Errorf(format string, args ...any) { r.report(fmt.Sprintf(format, args...)) }
func (r *recorder) Fail()                             { r.report("failed") }
func (r *recorder) Fatal(args ...any)                 { r.Error(args...); runtime.Goexit() }
func (r *recorder) Fatalf(format string, args ...any) { r.Errorf(format, args...); runtime.Goexit() }
func (r *recorder) FailNow()                          { r.Fail(); runtime.Goexit() }
func (r *recorder) Skip(...any)                       { r.SkipNow() }
func (r *recorder) Skipf(string, ...any)              { r.SkipNow() }

func (r *recorder) SkipNow() {
	r.mu.Lock()
	r.skipped = true
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

func (r *recorder) Skipped() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.skipped
}

func (r *recorder) Cleanup(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cleanups = append(r.cleanups, f)
}

func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp("", "gantry-suite-")
	if err != nil {
		r.Fatalf("TempDir: %v", err)
	}
	r.Cleanup(func() { _ = os.RemoveAll(dir) }) // a directory that stays behind is no finding about the suite
	// One level down, as the testing package does it: what a test makes beside its directory goes with it.
	inner := filepath.Join(dir, "001")
	if err := os.Mkdir(inner, 0o755); err != nil {
		r.Fatalf("TempDir: %v", err)
	}
	return inner
}

func (r *recorder) ArtifactDir() string { return filepath.Join(r.TempDir(), "artifacts") }

func (r *recorder) Setenv(key, value string) {
	before, had := os.LookupEnv(key)
	if err := os.Setenv(key, value); err != nil {
		r.Fatalf("Setenv: %v", err)
	}
	r.Cleanup(func() {
		if had {
			_ = os.Setenv(key, before)
		} else {
			_ = os.Unsetenv(key)
		}
	})
}

func (r *recorder) Chdir(dir string) {
	before, err := os.Getwd()
	if err == nil {
		err = os.Chdir(dir)
	}
	if err != nil {
		r.Fatalf("Chdir: %v", err)
	}
	r.Cleanup(func() { _ = os.Chdir(before) })
}
