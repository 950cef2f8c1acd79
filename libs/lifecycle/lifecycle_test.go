package lifecycle_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-agents/gantry/libs/lifecycle"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// journal notes what happened, in order.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) note(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) part(name string, startErr, stopErr error) lifecycle.Part {
	return lifecycle.Part{
		Name:  name,
		Start: func(context.Context) error { j.note("start " + name); return startErr },
		Stop:  func(context.Context) error { j.note("stop " + name); return stopErr },
	}
}

func TestClosersRunInReverseAndOnce(t *testing.T) {
	var j journal
	var c lifecycle.Closers
	bad := errors.New("bad")
	c.Push("a", func(context.Context) error { j.note("a"); return nil })
	c.Push("b", func(context.Context) error { j.note("b"); return bad })
	c.Push("nothing", nil)
	c.Push("c", func(context.Context) error { j.note("c"); return nil })
	err := c.Close(t.Context())
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "b: bad") {
		t.Errorf("Close = %v", err)
	}
	if err := c.Close(t.Context()); err != nil {
		t.Errorf("second Close = %v", err)
	}
	if want := []string{"c", "b", "a"}; !slices.Equal(j.lines, want) {
		t.Errorf("order %v, want %v", j.lines, want)
	}
}

func TestClosersLeaveAStuckStepBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var ranOther bool
		var c lifecycle.Closers
		c.Push("other", func(context.Context) error { ranOther = true; return nil })
		c.Push("stuck", func(context.Context) error { <-release; return nil })
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := c.Close(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stuck") {
			t.Errorf("Close = %v", err)
		}
		close(release)
		synctest.Wait()
		if !ranOther {
			t.Error("the step below the stuck one never ran")
		}
	})
}

func TestReleaseHandsTheStepsOver(t *testing.T) {
	var j journal
	var c lifecycle.Closers
	c.Push("a", func(context.Context) error { j.note("a"); return nil })
	owned := c.Release()
	if err := c.Close(t.Context()); err != nil || len(j.lines) != 0 {
		t.Errorf("Close after Release ran %v, %v", j.lines, err)
	}
	if err := owned.Close(t.Context()); err != nil || len(j.lines) != 1 {
		t.Errorf("the released stack ran %v, %v", j.lines, err)
	}
}

func TestGroup(t *testing.T) {
	bad := errors.New("bad")
	tests := map[string]struct {
		starts map[string]error
		stops  map[string]error
		want   []string
		start  error
		stop   error
	}{
		"all well":          {nil, nil, []string{"start a", "start b", "start c", "stop c", "stop b", "stop a"}, nil, nil},
		"the second":        {map[string]error{"b": bad}, nil, []string{"start a", "start b", "stop a"}, bad, nil},
		"a stop that fails": {nil, map[string]error{"b": bad}, []string{"start a", "start b", "start c", "stop c", "stop b", "stop a"}, nil, bad},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var j journal
			var g lifecycle.Group
			for _, part := range []string{"a", "b", "c"} {
				g.Add(j.part(part, tt.starts[part], tt.stops[part]))
			}
			g.Add(lifecycle.Part{Name: "empty"})
			if err := g.Start(t.Context()); !errors.Is(err, tt.start) {
				t.Errorf("Start = %v, want %v", err, tt.start)
			}
			if err := g.Stop(t.Context()); !errors.Is(err, tt.stop) {
				t.Errorf("Stop = %v, want %v", err, tt.stop)
			}
			if err := g.Stop(t.Context()); err != nil {
				t.Errorf("second Stop = %v", err)
			}
			if !slices.Equal(j.lines, tt.want) {
				t.Errorf("%v, want %v", j.lines, tt.want)
			}
			if err := g.Start(t.Context()); err == nil {
				t.Error("a stopped group started again")
			}
		})
	}
}

func TestStopBeforeStart(t *testing.T) {
	var j journal
	var g lifecycle.Group
	g.Add(j.part("a", nil, nil))
	if err := g.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := g.Start(t.Context()); !errors.Is(err, lifecycle.ErrStopped) || len(j.lines) != 0 {
		t.Errorf("Start = %v, ran %v", err, j.lines)
	}
}

func TestStopDuringStartTellsThePartThatWeStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		var g lifecycle.Group
		var cause error
		g.Add(j.part("a", nil, nil))
		g.Add(lifecycle.Part{Name: "slow", Start: func(ctx context.Context) error {
			<-ctx.Done()
			cause = context.Cause(ctx)
			return ctx.Err()
		}})
		result := make(chan error, 1)
		go func() { result <- g.Start(t.Context()) }()
		synctest.Wait()
		if err := g.Stop(t.Context()); err != nil {
			t.Errorf("Stop = %v", err)
		}
		if err := <-result; err == nil {
			t.Error("Start succeeded")
		}
		if !errors.Is(cause, lifecycle.ErrStopped) {
			t.Errorf("the part saw the cause %v", cause)
		}
		if want := []string{"start a", "stop a"}; !slices.Equal(j.lines, want) {
			t.Errorf("%v, want %v", j.lines, want)
		}
	})
}

func TestAPartThatDoesNotStopHoldsUpNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var j journal
		var g lifecycle.Group
		release := make(chan struct{})
		g.Add(j.part("a", nil, nil))
		g.Add(lifecycle.Part{Name: "stuck", StopTimeout: time.Second, Stop: func(context.Context) error { <-release; return nil }})
		if err := g.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err := g.Stop(t.Context())
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "stop stuck") {
			t.Errorf("Stop = %v", err)
		}
		if took := time.Since(begin); took != time.Second {
			t.Errorf("Stop took %v, want the part's own second", took)
		}
		if want := []string{"start a", "stop a"}; !slices.Equal(j.lines, want) {
			t.Errorf("%v, want %v", j.lines, want)
		}
		close(release)
	})
}

// TestStress starts and stops from many goroutines at once: every part that started must be stopped exactly once, and
// when every call has returned nothing may run.
func TestStress(t *testing.T) {
	for round := range 300 {
		var running, started, stopped atomic.Int64
		var g lifecycle.Group
		failing := rand.IntN(6)
		for i := range 4 {
			g.Add(lifecycle.Part{
				Name: string(rune('a' + i)),
				Start: func(context.Context) error {
					if i == failing {
						return errors.New("bad")
					}
					running.Add(1)
					started.Add(1)
					return nil
				},
				Stop: func(context.Context) error {
					running.Add(-1)
					stopped.Add(1)
					return nil
				},
			})
		}
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				if i%2 == 0 {
					_ = g.Start(t.Context())
					return
				}
				_ = g.Stop(t.Context())
			})
		}
		wg.Wait()
		if err := g.Stop(t.Context()); err != nil {
			t.Fatalf("round %d: Stop = %v", round, err)
		}
		if running.Load() != 0 || started.Load() != stopped.Load() {
			t.Fatalf("round %d: %d still run, %d started, %d stopped", round, running.Load(), started.Load(), stopped.Load())
		}
	}
}
