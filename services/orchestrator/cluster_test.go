package orchestrator_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"google.golang.org/grpc/metadata"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

func ctxOf(t testing.TB, user, session string) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	t.Cleanup(cancel)
	return identity.NewContext(ctx, identity.Identity{User: user, Session: session})
}

func keyOf(user, session string) identity.Thread {
	return identity.Thread{Tenant: identity.DefaultTenant, Agent: identity.DefaultAgent, User: user, Session: session}
}

func start(t *testing.T, ctx context.Context, r *orchestratortest.Replica, text string) *orchestratorv1.Run {
	t.Helper()
	resp, err := orchestratorv1.NewRunServiceClient(r.Conn).StartRun(ctx, &orchestratorv1.StartRunRequest{Input: &orchestratorv1.RunInput{Text: text}})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRun()
}

// watch attaches and reads to the end.
func watch(t *testing.T, ctx context.Context, r *orchestratortest.Replica, run string) (events []*threadv1.Event, end *orchestratorv1.RunTerminal) {
	t.Helper()
	s, err := orchestratorv1.NewRunServiceClient(r.Conn).AttachRun(ctx, &orchestratorv1.AttachRunRequest{RunId: run})
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return events, end
		}
		if err != nil {
			t.Fatalf("attach: %v", err)
		}
		if ev := m.GetEvent().GetEvent(); ev != nil {
			events = append(events, ev)
		}
		if term := m.GetEvent().GetTerminal(); term != nil {
			if end != nil {
				t.Error("two terminal messages")
			}
			end = term
		}
	}
}

// hasEvent waits until the journal of a thread has an event of a type.
func hasEvent(t *testing.T, c *orchestratortest.Cluster, key identity.Thread, kind string) *threadv1.Event {
	t.Helper()
	var found *threadv1.Event
	testkit.Eventually(t, 10*time.Second, func() error {
		for _, ev := range c.Threads.Journal(key) {
			if ev.GetType() == kind {
				found = ev
				return nil
			}
		}
		return fmt.Errorf("no %s yet", kind)
	})
	return found
}

func count(events []*threadv1.Event, kind string) int {
	n := 0
	for _, ev := range events {
		if ev.GetType() == kind {
			n++
		}
	}
	return n
}

// TestTakeOverInTheMiddleOfACall kills the replica between the dispatch of a write and its answer. The other one makes the call again under the same effect id: the
// run ends, and the file was written once.
func TestTakeOverInTheMiddleOfACall(t *testing.T) {
	for name, takesEffect := range map[string]bool{"the write had taken effect": true, "the write had not arrived": false} {
		t.Run(name, func(t *testing.T) {
			c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
			first, second := c.Start(nil), c.Start(nil)
			ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
			var writes atomic.Int32
			arrived, release := make(chan struct{}), make(chan struct{})
			c.Workspace.OnWrite(func(ctx context.Context, _ string) {
				if writes.Add(1) > 1 {
					return
				}
				close(arrived)
				if takesEffect {
					<-release
					return
				}
				<-ctx.Done()
				panic("the write is lost on its way")
			})
			run := start(t, ctx, first, "keep it")
			<-arrived
			first.Kill()
			died := time.Now()
			close(release)
			events, end := watch(t, ctx, second, run.GetId())
			if end.GetOutcome() != "completed" || end.GetRun().GetText() != "It is kept." {
				t.Errorf("the end is %v", end)
			}
			if count(events, "recovery/taken_over") != 1 || count(events, "tool/ended") != 1 || count(events, "tool/dispatched") != 1 {
				t.Errorf("taken over %d times, %d dispatches, %d results", count(events, "recovery/taken_over"), count(events, "tool/dispatched"), count(events, "tool/ended"))
			}
			if n := c.Workspace.Writes("kept.txt"); n != 1 {
				t.Errorf("the file was written %d times", n)
			}
			took := hasEvent(t, c, key, "recovery/taken_over").GetTime().AsTime().Sub(died)
			if took > 3*time.Second {
				t.Errorf("the take-over took %s", took)
			}
			t.Logf("taken over after %s", took)
		})
	}
}

// TestAClaimThatArrivesLateIsNoTrap: the store gives a thread with mail away just when its actor comes back for the same mail. When the answer arrives, the work
// is done and the thread was released, or given away again; whatever the replica does with the old answer, the thread must not end up owned and unattended.
func TestAClaimThatArrivesLateIsNoTrap(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	r := c.Start(nil)
	client := orchestratorv1.NewRunServiceClient(r.Conn)
	for _, late := range []time.Duration{0, time.Millisecond, 5 * time.Millisecond, 20 * time.Millisecond} {
		r.DelayClaims(late)
		ctx, cancel := context.WithTimeout(ctxOf(t, "ana", "s"), 20*time.Second)
		for i := range 60 {
			resp, err := client.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: "hello"}})
			if err != nil || resp.GetRun().GetState() != threadv1.RunState_RUN_STATE_COMPLETED {
				t.Fatalf("claims %s late: call %d gives %v, %v", late, i, resp.GetRun().GetState(), err)
			}
		}
		cancel()
	}
}

// TestTakeOverWhileTheModelSpeaks asks the model again; the text of the dead attempt is void.
func TestTakeOverWhileTheModelSpeaks(t *testing.T) {
	c := orchestratortest.NewCluster(t, `
turns:
  - {when: {user: "^count"}, text: "one two", hang: true}
  - {when: {user: "^count"}, text: "one two three"}
`, access.Config{})
	first, second := c.Start(nil), c.Start(nil)
	ctx := ctxOf(t, "ana", "s")
	run := start(t, ctx, first, "count")
	stream, err := orchestratorv1.NewRunServiceClient(first.Conn).AttachRun(ctx, &orchestratorv1.AttachRunRequest{RunId: run.GetId()})
	if err != nil {
		t.Fatal(err)
	}
	for spoken := false; !spoken; { // a dispatch alone may not have reached the model yet
		msg, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		spoken = msg.GetEvent().GetDelta() != nil
	}
	first.Kill()
	events, end := watch(t, ctx, second, run.GetId())
	if end.GetRun().GetText() != "one two three" || end.GetRun().GetSteps() != 1 || count(events, "model/retried") != 1 {
		t.Errorf("the end is %v after %d retries", end, count(events, "model/retried"))
	}
}

// TestQueuedInputsAndCancelsOfOtherReplicas sends to a replica that does not own the thread.
func TestQueuedInputsAndCancelsOfOtherReplicas(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	first, second := c.Start(nil), c.Start(nil)
	ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
	run := start(t, ctx, first, "stuck")
	hasEvent(t, c, key, "model/dispatched")
	queued := start(t, ctx, second, "hello")
	if _, err := orchestratorv1.NewRunServiceClient(second.Conn).CancelRun(ctx, &orchestratorv1.CancelRunRequest{RunId: run.GetId()}); err != nil {
		t.Fatal(err)
	}
	if _, end := watch(t, ctx, second, run.GetId()); end.GetOutcome() != "cancelled" {
		t.Errorf("the cancelled run ends %v", end)
	}
	if _, end := watch(t, ctx, second, queued.GetId()); end.GetOutcome() != "completed" {
		t.Errorf("the queued run ends %v", end)
	}
}

// TestApprovalOverRestart lets every replica go between the question and the answer.
func TestApprovalOverRestart(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	ctx := ctxOf(t, "ana", "s")
	first := c.Start(nil)
	resp, err := orchestratorv1.NewRunServiceClient(first.Conn).CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{
		Text: "keep it", Spec: &orchestratorv1.AgentSpec{PolicyRules: []string{"ask write_file"}, DenyTools: []string{"read_file"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	first.Stop()
	second := c.Start(nil)
	runs := orchestratorv1.NewRunServiceClient(second.Conn)
	id := resp.GetRun().GetInteractions()[0].GetId()
	if _, err := runs.ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{Answers: []*orchestratorv1.InteractionAnswer{{InteractionId: id, Decision: "approve"}}}); err != nil {
		t.Fatal(err)
	}
	events, end := watch(t, ctx, second, resp.GetRun().GetId())
	if end.GetOutcome() != "completed" || c.Workspace.Writes("kept.txt") != 1 {
		t.Errorf("the end is %v, %d writes", end, c.Workspace.Writes("kept.txt"))
	}
	for _, ev := range events { // the call's own spec holds after the restart
		for _, name := range ev.GetPayload().GetRequestPrepared().GetTools() {
			if name == "read_file" {
				t.Errorf("event %d offers a tool that the call took away", ev.GetSeq())
			}
		}
	}
}

// TestAnInteractionExpires by a timer in the mailbox, which needs no replica to remember it.
func TestAnInteractionExpires(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	first := c.Start(func(cfg *orchestrator.Config) { cfg.InteractionLife = 300 * time.Millisecond })
	ctx := ctxOf(t, "ana", "s")
	resp, err := orchestratorv1.NewRunServiceClient(first.Conn).CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: "ask me"}})
	if err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		got, err := orchestratorv1.NewRunServiceClient(first.Conn).GetRun(ctx, &orchestratorv1.GetRunRequest{RunId: resp.GetRun().GetId()})
		if err != nil || got.GetRun().GetText() != "No answer, then." {
			return fmt.Errorf("the run is %v, %w", got.GetRun(), err)
		}
		return nil
	})
}

// TestAFencedReplicaStops freezes the owner of a run past its life. When it goes on, nothing of what it writes is taken, and it works on other threads again.
func TestAFencedReplicaStops(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	first, second := c.Start(nil), c.Start(nil)
	ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
	arrived, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.Workspace.OnWrite(func(context.Context, string) {
		once.Do(func() { close(arrived); <-release })
	})
	run := start(t, ctx, first, "keep it")
	<-arrived
	owner := c.Threads.OwnerOf(key)
	first.Kill()
	testkit.Eventually(t, 5*time.Second, func() error {
		if c.Threads.OwnerOf(key) == owner {
			return errors.New("the dead owner still has the thread")
		}
		return nil
	})
	first.Revive()
	close(release)
	if _, end := watch(t, ctx, second, run.GetId()); end.GetOutcome() != "completed" {
		t.Errorf("the end is %v", end)
	}
	journal := c.Threads.Journal(key)
	if count(journal, "run/ended") != 1 || count(journal, "tool/ended") != 1 || c.Workspace.Writes("kept.txt") != 1 {
		t.Errorf("%d ends, %d results, %d writes", count(journal, "run/ended"), count(journal, "tool/ended"), c.Workspace.Writes("kept.txt"))
	}
	resp, err := orchestratorv1.NewRunServiceClient(first.Conn).CallAgent(ctxOf(t, "ben", "s"), &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: "hello"}})
	if err != nil || resp.GetRun().GetState() != threadv1.RunState_RUN_STATE_COMPLETED {
		t.Errorf("the revived replica answers %v, %v", resp, err)
	}
}

// TestDrainHandsRunsOver stops a replica in good order while its run works: the other one goes on at the step border.
func TestDrainHandsRunsOver(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	first, second := c.Start(nil), c.Start(nil)
	ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
	arrived, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.Workspace.OnWrite(func(context.Context, string) {
		once.Do(func() { close(arrived); <-release })
	})
	run := start(t, ctx, first, "keep it")
	<-arrived
	stopped := make(chan struct{})
	go func() { first.Stop(); close(stopped) }()
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	<-stopped
	if _, end := watch(t, ctx, second, run.GetId()); end.GetOutcome() != "completed" {
		t.Errorf("the end is %v", end)
	}
	journal := c.Threads.Journal(key)
	if count(journal, "tool/ended") != 1 || c.Workspace.Writes("kept.txt") != 1 {
		t.Errorf("%d results, %d writes", count(journal, "tool/ended"), c.Workspace.Writes("kept.txt"))
	}
}

// TestATaskSurvivesItsWorker kills the replica that works on a child; the other one leases the task and goes on with the same run.
func TestATaskSurvivesItsWorker(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	first := c.Start(nil)
	ctx := ctxOf(t, "ana", "s")
	arrived, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	c.Workspace.OnWrite(func(context.Context, string) {
		once.Do(func() { close(arrived); <-release })
	})
	run := start(t, ctx, first, "background")
	<-arrived
	first.Kill()
	close(release)
	second := c.Start(nil)
	if _, end := watch(t, ctx, second, run.GetId()); end.GetOutcome() != "completed" {
		t.Errorf("the parent ends %v", end)
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if s := c.Tasks.All()[0].GetState().String(); s != "TASK_STATE_COMPLETED" {
			return fmt.Errorf("the task is %s", s)
		}
		return nil
	})
	if n := c.Workspace.Writes("note.txt"); n != 1 {
		t.Errorf("the note was written %d times", n)
	}
}

// TestTenants runs two tenants with the same ids of agent, user and session. The tenant comes from the token alone, and reaches the other services by capability.
func TestTenants(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{Mode: access.ModeJWT, JWTAlgorithm: "HS256", JWTKey: secret})
	r := c.Start(nil)
	call := func(tenant, user, text string) (*orchestratorv1.Run, error) {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, access.ClientClaims{
			RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))},
			Tenant:           tenant, User: user, Verbs: []string{"*"}, Agents: []string{"*"},
		})
		signed, err := token.SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		ctx := metadata.AppendToOutgoingContext(ctxOf(t, user, "s"), "authorization", "Bearer "+signed)
		resp, err := orchestratorv1.NewRunServiceClient(r.Conn).CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{Text: text}})
		return resp.GetRun(), err
	}
	for _, tenant := range []string{"acme", "globex"} {
		run, err := call(tenant, "ana", "keep it")
		if err != nil || run.GetState() != threadv1.RunState_RUN_STATE_COMPLETED || run.GetThread().GetTenant() != tenant {
			t.Fatalf("%s: %v, %v", tenant, run, err)
		}
		b, err := identity.Identity{Tenant: tenant, User: "ana", Session: "s"}.Bucket()
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := c.Workspace.File(b, "kept.txt"); !ok || text != "ink" {
			t.Errorf("%s has no file of its own", tenant)
		}
		if n := len(c.Threads.Journal(identity.Thread{Tenant: tenant, Agent: identity.DefaultAgent, User: "ana", Session: "s"})); n == 0 {
			t.Errorf("%s has no journal of its own", tenant)
		}
	}
	if run, err := call("acme", "ana", "delegate"); err != nil || run.GetText() != "The helper is done." {
		t.Errorf("a child of a tenant: %v, %v", run, err)
	}
	_, err := orchestratorv1.NewRunServiceClient(r.Conn).GetRun(ctxOf(t, "ana", "s"), &orchestratorv1.GetRunRequest{RunId: "latest"})
	if !errors.Is(err, errdefs.ErrUnauthenticated) {
		t.Errorf("without a token: %v", err)
	}
}

// TestAdmission refuses what is too much, with a time to come again.
func TestAdmission(t *testing.T) {
	c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
	r := c.Start(func(cfg *orchestrator.Config) {
		cfg.MaxThreads, cfg.MaxThreadsPerUser, cfg.MaxQueue, cfg.DrainTimeout = 3, 2, 2, 200*time.Millisecond
	})
	runs := orchestratorv1.NewRunServiceClient(r.Conn)
	try := func(user, session string) error {
		_, err := runs.StartRun(ctxOf(t, user, session), &orchestratorv1.StartRunRequest{Input: &orchestratorv1.RunInput{Text: "stuck"}})
		return err
	}
	for _, s := range []string{"1", "2"} {
		if err := try("ana", s); err != nil {
			t.Fatal(err)
		}
		hasEvent(t, c, keyOf("ana", s), "model/dispatched")
	}
	var e *errdefs.Error
	if err := try("ana", "3"); errdefs.ReasonOf(err) != "TOO_MANY_RUNS" || !errors.As(err, &e) || e.RetryAfter <= 0 {
		t.Errorf("a third thread of one user: %v", err)
	}
	for range 2 {
		if err := try("ana", "1"); err != nil {
			t.Fatal(err)
		}
	}
	if err := try("ana", "1"); errdefs.ReasonOf(err) != "TOO_MANY_RUNS" {
		t.Errorf("a third input in the queue: %v", err)
	}
	if err := try("ben", "1"); err != nil {
		t.Errorf("another user: %v", err)
	}
	if err := try("cleo", "1"); errdefs.ReasonOf(err) != "TOO_MANY_RUNS" {
		t.Errorf("a fourth thread: %v", err)
	}
}

// TestASlowWatcherHoldsUpNothing reads nothing for a while: the run ends all the same, and the watcher still gets every event.
func TestASlowWatcherHoldsUpNothing(t *testing.T) {
	turns := "turns:\n"
	for i := range 40 {
		turns += fmt.Sprintf("  - {calls: [{name: todo_write, arguments: {todos: [{content: item %d}]}}], text: \"%0512d\", piece: 1}\n", i, i)
	}
	c := orchestratortest.NewCluster(t, turns+"  - {text: done}\n", access.Config{})
	r := c.Start(nil)
	ctx := ctxOf(t, "ana", "s")
	s, err := orchestratorv1.NewRunServiceClient(r.Conn).StreamAgent(ctx, &orchestratorv1.StreamAgentRequest{Input: &orchestratorv1.RunInput{Text: "go"}})
	if err != nil {
		t.Fatal(err)
	}
	hasEvent(t, c, keyOf("ana", "s"), "run/ended")
	var got, want []int64
	for {
		m, err := s.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if ev := m.GetEvent().GetEvent(); ev != nil {
			got = append(got, ev.GetSeq())
		}
	}
	for _, ev := range c.Threads.Journal(keyOf("ana", "s")) {
		if ev.GetRunId() != "" { // a checkpoint is of the thread, not of the run
			want = append(want, ev.GetSeq())
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("the watcher got the events %v of %v", got, want)
	}
}

// TestSteerBeforeTheRunStarts steers a run that is queued: the text waited for nothing and became a run of its own, before the one that it was meant for.
func TestSteerBeforeTheRunStarts(t *testing.T) {
	c := orchestratortest.NewCluster(t, `
turns:
  - {when: {user: "^first"}, delay: 700ms, text: "one"}
  - {always: true, when: {user: "^second"}, text: "two"}
  - {always: true, when: {user: "^and also"}, text: "three"}
`, access.Config{})
	replica := c.Start(nil)
	ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
	first := start(t, ctx, replica, "first")
	second := start(t, ctx, replica, "second")
	if _, err := orchestratorv1.NewRunServiceClient(replica.Conn).SteerRun(ctx, &orchestratorv1.SteerRunRequest{RunId: second.GetId(), Text: "and also"}); err != nil {
		t.Fatal(err)
	}
	if _, end := watch(t, ctx, replica, first.GetId()); end.GetRun().GetText() != "one" {
		t.Errorf("the first run ends with %q", end.GetRun().GetText())
	}
	if events, end := watch(t, ctx, replica, second.GetId()); count(events, "steer/applied") != 1 || end.GetRun().GetText() != "three" {
		t.Errorf("the second run was steered %d times and ends with %q", count(events, "steer/applied"), end.GetRun().GetText())
	}
	if n := count(c.Threads.Journal(key), "run/started"); n != 2 {
		t.Errorf("%d runs were started, want 2", n)
	}
}
