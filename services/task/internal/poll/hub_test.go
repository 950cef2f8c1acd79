package poll_test

import (
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/poll"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// woken says whether a waiter was woken, and takes the wake-up.
func woken(w *poll.Waiter) bool {
	select {
	case <-w.C:
		return true
	default:
		return false
	}
}

func work(t *testing.T, h *poll.Hub, queue string, capabilities ...string) *poll.Waiter {
	t.Helper()
	w, err := h.WaitForWork("acme", queue, capabilities)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func ready(h *poll.Hub, queue, capability string) {
	h.Signal(task.Signal{Kind: task.SignalReady, Tenant: "acme", Queue: queue, Capability: capability})
}

func TestWorkers(t *testing.T) {
	t.Run("each ready task wakes one, the longest waiting first", func(t *testing.T) {
		h := poll.New(9)
		a, b, elsewhere := work(t, h, "q"), work(t, h, "q"), work(t, h, "other")
		ready(h, "q", "")
		if !woken(a) || woken(b) || woken(elsewhere) {
			t.Error("the first task must wake the first worker of its queue alone")
		}
		ready(h, "q", "")
		if woken(a) || !woken(b) || woken(elsewhere) {
			t.Error("the second task must wake the second worker")
		}
		a.Looked()
		ready(h, "q", "")
		if !woken(a) {
			t.Error("a worker that has looked can be woken again")
		}
	})
	t.Run("a wake-up that was not used goes on", func(t *testing.T) {
		h := poll.New(9)
		a, b := work(t, h, "q"), work(t, h, "q")
		ready(h, "q", "")
		a.Leave()
		if !woken(b) {
			t.Error("the task of a worker that left was lost")
		}
		b.Looked()
		c := work(t, h, "q")
		b.Failed()
		b.Leave()
		if !woken(c) {
			t.Error("the task of a worker that could not look was lost")
		}
	})
	t.Run("only for what a worker offers", func(t *testing.T) {
		h := poll.New(9)
		plain, able := work(t, h, "q"), work(t, h, "q", "gpu", "sandbox")
		ready(h, "q", "sandbox")
		if woken(plain) || !woken(able) {
			t.Error("the wrong worker was woken")
		}
	})
}

func TestWaiters(t *testing.T) {
	h := poll.New(2)
	one, err := h.Wait(poll.TaskKey("acme", "t_1"), poll.TaskKey("acme", "t_2"))
	if err != nil {
		t.Fatal(err)
	}
	owner, err := h.Wait(poll.OwnerKey("acme/user/a/ana"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Wait("third"); errdefs.ReasonOf(err) != task.ReasonTooManyWaiters {
		t.Errorf("a third waiter of two: %v", err)
	}
	changed := task.Signal{Kind: task.SignalChanged, Tenant: "acme", TaskID: "t_2", Owner: "acme/user/b/ana", RootOwner: "acme/user/a/ana"}
	h.Signal(changed)
	h.Signal(changed)
	if !woken(one) || woken(one) || !woken(owner) {
		t.Error("a waiter is woken by any of its keys, and once for what it has not looked at")
	}
	changed.Tenant = "other"
	h.Signal(changed)
	if woken(one) {
		t.Error("woken by a task of another tenant")
	}
	one.Leave()
	if w, err := h.Wait("third"); err != nil {
		t.Errorf("after one left: %v", err)
	} else {
		w.Leave()
	}
	owner.Leave()
	for range 2 {
		h.Close()
	}
	<-h.Done()
}
