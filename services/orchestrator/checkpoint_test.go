package orchestrator_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/checkpoint"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/localconn"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

// store is the journal of a cluster as its test calls it.
func store(c *orchestratortest.Cluster) threadv1.ThreadServiceClient {
	return threadv1.NewThreadServiceClient(localconn.New(&threadv1.ThreadService_ServiceDesc, c.Threads))
}

func inThread(ctx context.Context, user, session string) context.Context {
	return identity.NewContext(ctx, identity.Identity{Tenant: identity.DefaultTenant, Agent: identity.DefaultAgent, User: user, Session: session})
}

func call(t *testing.T, ctx context.Context, r *orchestratortest.Replica, text string) *orchestratorv1.Run {
	t.Helper()
	resp, err := orchestratorv1.NewRunServiceClient(r.Conn).CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRun()
}

// TestOpeningAThreadReadsItsTail has many runs on one thread: what another replica reads to go on with it does not grow with them, and it knows all the same
// what was said.
func TestOpeningAThreadReadsItsTail(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	const every = 20
	often := func(cfg *orchestrator.Config) { cfg.CheckpointEvery = every }
	ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
	first := c.Start(often)
	for range 30 {
		call(t, ctx, first, "hello")
	}
	first.Stop()
	events := len(c.Threads.Journal(key))
	written := count(c.Threads.Journal(key), "checkpoint/written")
	if written < events/every/2 || written > events/every {
		t.Errorf("%d checkpoints among %d events", written, events)
	}
	second := c.Start(often)
	before := c.Threads.Scanned()
	call(t, ctx, second, "hello")
	if read := c.Threads.Scanned() - before; read > 3*every {
		t.Errorf("%d events were read of %d", read, events)
	}
	opened, err := checkpoint.Open(inThread(ctx, "ana", "s"), store(c), 0, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	all := &loop.Thread{}
	for _, ev := range c.Threads.Journal(key) {
		if err := all.Apply(ev); err != nil {
			t.Fatal(err)
		}
	}
	got, err := opened.Thread.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if want, err := all.Snapshot(); err != nil || !bytes.Equal(got, want) || opened.CheckpointSeq == 0 {
		t.Errorf("the thread from checkpoint %d is another than that of all events, or %v", opened.CheckpointSeq, err)
	}
}

// TestTakeOverFromACheckpointInTheMiddle writes a checkpoint while work of each kind is open, after the owner has died: whoever takes the thread over from it ends
// the run as if it had read every event.
func TestTakeOverFromACheckpointInTheMiddle(t *testing.T) {
	for name, tt := range map[string]struct {
		text    string
		spec    *orchestratorv1.AgentSpec
		until   string // the event that shows that the work is open
		act     func(t *testing.T, ctx context.Context, r *orchestratortest.Replica, run *orchestratorv1.Run)
		then    func(t *testing.T, ctx context.Context, r *orchestratortest.Replica, c *orchestratortest.Cluster)
		state   func(*loop.Run) bool
		outcome string
	}{
		"the model answers": {text: "slow", until: "model/dispatched", state: func(r *loop.Run) bool { return r.Model != nil }, outcome: "completed"},
		"a call works":      {text: "keep it", until: "tool/dispatched", state: func(r *loop.Run) bool { return len(r.Calls) == 1 && r.Calls[0].Flying() }, outcome: "completed"},
		"a question is open": {
			text: "keep it", spec: &orchestratorv1.AgentSpec{PolicyRules: []string{"ask write_file"}}, until: "interaction/requested",
			state: func(r *loop.Run) bool { return len(r.Interactions()) == 1 }, outcome: "completed",
			then: func(t *testing.T, ctx context.Context, r *orchestratortest.Replica, c *orchestratortest.Cluster) {
				id := hasEvent(t, c, keyOf("ana", "s"), "interaction/requested").GetPayload().GetInteractionRequested().GetInteraction().GetId()
				if _, err := orchestratorv1.NewRunServiceClient(r.Conn).ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{
					Answers: []*orchestratorv1.InteractionAnswer{{InteractionId: id, Decision: "approve"}},
				}); err != nil {
					t.Fatal(err)
				}
			},
		},
		"a cancel is on its way": {
			text: "keep it", until: "tool/dispatched", state: func(r *loop.Run) bool { return r.Cancel != nil && len(r.Calls) == 1 && r.Calls[0].Flying() }, outcome: "cancelled",
			act: func(_ *testing.T, ctx context.Context, r *orchestratortest.Replica, run *orchestratorv1.Run) {
				r.KillAt(1, false)                                                                                                     // the commit that says it; the next one would say that the call has ended
				_, _ = orchestratorv1.NewRunServiceClient(r.Conn).CancelRun(ctx, &orchestratorv1.CancelRunRequest{RunId: run.GetId()}) // its answer may die with the replica
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
			ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
			stuck := make(chan struct{})
			var writes int
			c.Workspace.OnWrite(func(context.Context, string) {
				if writes++; writes == 1 && tt.until == "tool/dispatched" {
					<-stuck
				}
			})
			first := c.Start(nil)
			resp, err := orchestratorv1.NewRunServiceClient(first.Conn).StartRun(ctx, &orchestratorv1.StartRunRequest{Input: &orchestratorv1.RunInput{Text: tt.text, Spec: tt.spec}})
			if err != nil {
				t.Fatal(err)
			}
			hasEvent(t, c, key, tt.until)
			if tt.act != nil {
				tt.act(t, ctx, first, resp.GetRun())
				hasEvent(t, c, key, "cancel/requested")
			}
			first.Kill()
			writeCheckpoint(t, inThread(ctx, "ana", "s"), c, tt.state)
			close(stuck)
			second := c.Start(nil)
			if tt.then != nil {
				tt.then(t, ctx, second, c)
			}
			_, end := watch(t, ctx, second, resp.GetRun().GetId())
			if end.GetOutcome() != tt.outcome {
				t.Errorf("the end is %v", end)
			}
			if n := count(c.Threads.Journal(key), "run/ended"); n == 0 || count(c.Threads.Journal(key), "tool/ended") > 1 {
				t.Errorf("%d ends, %d results", n, count(c.Threads.Journal(key), "tool/ended"))
			}
		})
	}
}

// writeCheckpoint takes the thread, adds a checkpoint of what it is in the middle of, and gives it up.
func writeCheckpoint(t *testing.T, ctx context.Context, c *orchestratortest.Cluster, right func(*loop.Run) bool) {
	t.Helper()
	s, owner := store(c), &threadv1.Owner{Id: "test/1"}
	if _, err := s.Heartbeat(ctx, &threadv1.HeartbeatRequest{Owner: owner}); err != nil {
		t.Fatal(err)
	}
	got, err := s.Acquire(ctx, &threadv1.AcquireRequest{Owner: owner, Fence: true})
	if err != nil {
		t.Fatal(err)
	}
	opened, err := checkpoint.Open(ctx, s, 0, slog.New(slog.DiscardHandler))
	if err != nil || opened.Thread.Run == nil || !right(opened.Thread.Run) {
		t.Fatalf("%v, the run is %+v", err, opened.Thread.Run)
	}
	p, err := checkpoint.Payload(ctx, s, opened.Thread)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(ctx, &threadv1.CommitRequest{
		OwnerId: owner.GetId(), Epoch: got.GetHead().GetEpoch(), BatchId: "checkpoint", ExpectedSeq: -1, Release: true,
		Events: []*threadv1.Event{{Schema: 1, Id: "checkpoint", Type: "checkpoint/written", Payload: p}},
	}); err != nil {
		t.Fatal(err)
	}
}

// TestWhatWasRedactedIsInNoCheckpoint redacts an input that checkpoints have taken in, once before the replica that said so far has let go of the thread.
func TestWhatWasRedactedIsInNoCheckpoint(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	often := func(cfg *orchestrator.Config) { cfg.CheckpointEvery = 1 }
	ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
	first := c.Start(often)
	const secret = "hello, my number is 4711"
	call(t, ctx, first, secret)
	run := start(t, ctx, first, "slow") // the replica holds the thread, and what was said
	testkit.Eventually(t, 10*time.Second, func() error {
		if count(c.Threads.Journal(key), "run/started") == 2 {
			return nil
		}
		return fmt.Errorf("the second run has not started")
	})
	var seq int64
	for _, ev := range c.Threads.Journal(key) {
		if loop.TextOf(ev.GetPayload().GetInputReceived().GetMessage()) == secret {
			seq = ev.GetSeq()
		}
	}
	inner := inThread(ctx, "ana", "s")
	if _, err := store(c).Redact(inner, &threadv1.RedactRequest{Seqs: []int64{seq}}); err != nil {
		t.Fatal(err)
	}
	watch(t, ctx, first, run.GetId())
	first.Stop()
	second := c.Start(often)
	call(t, ctx, second, "hello")
	usable := 0
	for _, ev := range c.Threads.Journal(key) {
		w := ev.GetPayload().GetCheckpointWritten()
		if w == nil {
			continue
		}
		data := w.GetInline()
		if w.GetBlobSha256() != "" {
			got, err := store(c).GetBlob(inner, &threadv1.GetBlobRequest{Sha256: w.GetBlobSha256()})
			if err != nil {
				t.Fatal(err)
			}
			data = got.GetData()
		}
		thread, err := loop.Restore(w.GetFormat(), data)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range thread.Messages() {
			if ev.GetSeq() > seq && strings.Contains(loop.TextOf(m), "4711") {
				t.Errorf("checkpoint %d says what was redacted", ev.GetSeq())
			}
		}
		if ev.GetSeq() > seq {
			usable++
		}
	}
	if usable == 0 {
		t.Error("no checkpoint was written after the redaction")
	}
}
