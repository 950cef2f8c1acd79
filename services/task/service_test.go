package task_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task"
	"github.com/gantry-agents/gantry/services/task/tasktest"
)

// TestService runs the black-box suite against the service in memory and over TCP, and with GANTRY_TARGET set against the server at that address.
func TestService(t *testing.T) {
	if target := os.Getenv("GANTRY_TARGET"); target != "" {
		tasktest.Run(testkit.Wrap(t), func(tb testing.TB) grpc.ClientConnInterface {
			conn, err := client.Dial(target, nil)
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { conn.Close() })
			return conn
		})
		return
	}
	for _, address := range []string{"memory:task", "127.0.0.1:0"} {
		t.Run(strings.SplitN(address, ":", 2)[0], func(t *testing.T) {
			r := newRig(t)
			r.address = address
			r.start(t)
			tasktest.Run(testkit.Wrap(t), func(tb testing.TB) grpc.ClientConnInterface { return r.dial(tb) })
		})
	}
}

// toThread is a task of ana's whose result goes to her thread s1.
func toThread(mode taskv1.DeliveryMode) *taskv1.CreateTaskRequest {
	return &taskv1.CreateTaskRequest{
		Kind: "agent_run", Label: "review", DeliveryMode: mode, ParentThread: &commonv1.Thread{Agent: "coder", User: "ana", Session: "s1"},
		ChildThread: &commonv1.Thread{Agent: "reviewer", User: "ana", Session: "c1"},
	}
}

// finish creates a task and completes it.
func finish(t *testing.T, c taskv1.TaskServiceClient, r *taskv1.CreateTaskRequest, text string) *taskv1.Task {
	t.Helper()
	made, err := c.CreateTask(as(t, "ana", "s1"), r)
	if err != nil {
		t.Fatal(err)
	}
	leased, err := c.LeaseTasks(as(t, "", ""), &taskv1.LeaseTasksRequest{WorkerId: "w"})
	if err != nil || len(leased.GetTasks()) != 1 {
		t.Fatalf("LeaseTasks: %v, %v", leased, err)
	}
	if _, err := c.CompleteTask(as(t, "", ""), &taskv1.CompleteTaskRequest{
		TaskId: made.GetTask().GetId(), WorkerId: "w", FencingToken: leased.GetTasks()[0].GetLease().GetFencingToken(), Result: &taskv1.TaskResult{Text: text},
	}); err != nil {
		t.Fatal(err)
	}
	return made.GetTask()
}

func delivery(t *testing.T, payload []byte) *taskv1.TaskDelivery {
	t.Helper()
	d := new(taskv1.TaskDelivery)
	if err := proto.Unmarshal(payload, d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDelivery(t *testing.T) {
	t.Run("a result reaches the parent's mailbox, again and again until it is taken", func(t *testing.T) {
		r, box := newRig(t), newMailbox()
		r.deps.Threads = serveMailbox(t, box, r.network)
		r.start(t)
		c := r.client(t)
		box.setRefuse(3)
		long := strings.Repeat("é", 20000)
		made := finish(t, c, toThread(taskv1.DeliveryMode_DELIVERY_MODE_WAKE), long)
		box.wait(t, 4)
		posts := box.accepted()
		if len(posts) != 1 {
			t.Fatalf("%d messages were taken", len(posts))
		}
		mail, to := posts[0].GetMail(), posts[0].GetThread()
		if mail.GetMessageId() != "task/"+made.GetId() || mail.GetKind() != "task_result" || !mail.GetWake() || len(mail.GetPayload()) > 64<<10 {
			t.Errorf("mail %s %s wake %v, %d bytes", mail.GetMessageId(), mail.GetKind(), mail.GetWake(), len(mail.GetPayload()))
		}
		if to.GetTenant() != "default" || to.GetAgent() != "coder" || to.GetUser() != "ana" || to.GetSession() != "s1" {
			t.Errorf("thread %v", to)
		}
		if id := box.as[0]; id.Agent != "coder" || id.User != "ana" || id.Session != "s1" {
			t.Errorf("posted as %+v", id)
		}
		d := delivery(t, mail.GetPayload())
		if d.GetTaskId() != made.GetId() || d.GetState() != taskv1.TaskState_TASK_STATE_COMPLETED || d.GetLabel() != "review" || d.GetChildThread().GetSession() != "c1" {
			t.Errorf("delivery %v", d)
		}
		if text := d.GetResult().GetText(); !strings.HasPrefix(long, text) || len(text) != 16<<10 || !d.GetResult().GetTruncated() {
			t.Errorf("text of %d bytes, truncated %v", len(text), d.GetResult().GetTruncated())
		}
		testkit.Eventually(t, 5*time.Second, func() error {
			got, err := c.GetTask(as(t, "ana", "s1"), &taskv1.GetTaskRequest{TaskId: made.GetId()})
			if err == nil && got.GetTask().GetDeliveryTime() == nil {
				return context.DeadlineExceeded
			}
			return err
		})
	})
	t.Run("a service that ends between completion and delivery delivers after its next start, as the same message", func(t *testing.T) {
		r, box := newRig(t), newMailbox()
		r.deps.Threads = serveMailbox(t, box, r.network)
		stop := r.start(t)
		box.setRefuse(-1) // for ever
		made := finish(t, r.client(t), toThread(taskv1.DeliveryMode_DELIVERY_MODE_QUEUE), "done")
		box.wait(t, 1)
		stop()
		if got := box.accepted(); len(got) != 0 {
			t.Fatalf("taken: %v", got)
		}
		box.setRefuse(0)
		r.start(t)
		testkit.Eventually(t, 10*time.Second, func() error {
			if len(box.accepted()) == 0 {
				return context.DeadlineExceeded
			}
			return nil
		})
		posts := box.accepted()
		if len(box.ids) != 1 || posts[0].GetMail().GetMessageId() != "task/"+made.GetId() || posts[0].GetMail().GetWake() {
			t.Errorf("posts %v", posts)
		}
	})
	t.Run("results wait for a thread service", func(t *testing.T) {
		r, box := newRig(t), newMailbox()
		stop := r.start(t)
		finish(t, r.client(t), toThread(taskv1.DeliveryMode_DELIVERY_MODE_QUEUE), "done")
		stop()
		r.deps.Threads = serveMailbox(t, box, r.network)
		r.start(t)
		box.wait(t, 1)
	})
	t.Run("a cancelled task wakes nobody, and what wants no delivery gets none", func(t *testing.T) {
		r, box := newRig(t), newMailbox()
		r.deps.Threads = serveMailbox(t, box, r.network)
		r.start(t)
		c := r.client(t)
		none := toThread(taskv1.DeliveryMode_DELIVERY_MODE_NONE)
		finish(t, c, none, "quiet")
		made, err := c.CreateTask(as(t, "ana", "s1"), toThread(taskv1.DeliveryMode_DELIVERY_MODE_WAKE))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.CancelTask(as(t, "ana", "s1"), &taskv1.CancelTaskRequest{TaskId: made.GetTask().GetId()}); err != nil {
			t.Fatal(err)
		}
		box.wait(t, 1)
		posts := box.accepted()
		if len(posts) != 1 || posts[0].GetMail().GetWake() || delivery(t, posts[0].GetMail().GetPayload()).GetState() != taskv1.TaskState_TASK_STATE_CANCELLED {
			t.Errorf("posts %v", posts)
		}
	})
}

// TestRestart checks that what was acknowledged goes on after a restart: leases with their tokens, cancels, schedules, cursors.
func TestRestart(t *testing.T) {
	r := newRig(t)
	stop := r.start(t)
	c := r.client(t)
	ana := as(t, "ana", "s1")
	running, err := c.CreateTask(ana, &taskv1.CreateTaskRequest{Kind: "job"})
	if err != nil {
		t.Fatal(err)
	}
	leased, err := c.LeaseTasks(as(t, "", ""), &taskv1.LeaseTasksRequest{WorkerId: "w", LeaseDuration: durationpb.New(time.Minute)})
	if err != nil {
		t.Fatal(err)
	}
	gone, err := c.CreateTask(ana, &taskv1.CreateTaskRequest{Kind: "job"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.LeaseTasks(as(t, "", ""), &taskv1.LeaseTasksRequest{WorkerId: "w2", LeaseDuration: durationpb.New(500 * time.Millisecond)}); err != nil {
		t.Fatal(err)
	}
	stopped, err := c.CreateTask(ana, &taskv1.CreateTaskRequest{Kind: "job"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CancelTask(ana, &taskv1.CancelTaskRequest{TaskId: stopped.GetTask().GetId()}); err != nil {
		t.Fatal(err)
	}
	listed, err := c.ListTasks(ana, &taskv1.ListTasksRequest{})
	if err != nil {
		t.Fatal(err)
	}
	stop()
	r.start(t)
	c = r.client(t)

	if _, err := c.CompleteTask(as(t, "", ""), &taskv1.CompleteTaskRequest{
		TaskId: running.GetTask().GetId(), WorkerId: "w", FencingToken: leased.GetTasks()[0].GetLease().GetFencingToken(), Result: &taskv1.TaskResult{Text: "x"},
	}); err != nil {
		t.Errorf("the worker that worked on: %v", err)
	}
	again, err := c.LeaseTasks(as(t, "", ""), &taskv1.LeaseTasksRequest{WorkerId: "w3", MaxTasks: 9})
	if err != nil || len(again.GetTasks()) != 1 || again.GetTasks()[0].GetId() != gone.GetTask().GetId() {
		t.Errorf("leased after the restart: %v, %v; a lost task must come back and a cancelled one must not", again, err)
	}
	watch, err := c.WatchTasks(ana, &taskv1.WatchTasksRequest{Cursor: listed.GetCursor(), MaxWait: durationpb.New(0)})
	if err != nil {
		t.Fatal(err)
	}
	if item, err := watch.Recv(); err != nil || item.GetChange() == nil {
		t.Errorf("the old cursor gives %v, %v", item, err)
	}
}

// TestStop checks that calls that wait are answered when the service stops, and that Stop can be called at any time.
func TestStop(t *testing.T) {
	t.Run("waits are answered", func(t *testing.T) {
		r := newRig(t)
		r.began = make(chan string, 9)
		stop := r.start(t)
		c := r.client(t)
		ana := as(t, "ana", "s1")
		made, err := c.CreateTask(ana, &taskv1.CreateTaskRequest{Kind: "job", Queue: "other"})
		if err != nil {
			t.Fatal(err)
		}
		watch, err := c.WatchTasks(ana, &taskv1.WatchTasksRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := watch.Recv(); err != nil {
			t.Fatal(err)
		}
		results := make(chan error, 2)
		go func() {
			_, err := c.LeaseTasks(ana, &taskv1.LeaseTasksRequest{WorkerId: "w", MaxWait: durationpb.New(time.Minute)})
			results <- err
		}()
		go func() {
			_, err := c.WaitTasks(ana, &taskv1.WaitTasksRequest{TaskIds: []string{made.GetTask().GetId()}, MaxWait: durationpb.New(time.Minute)})
			results <- err
		}()
		for range 4 {
			<-r.began
		}
		began := time.Now()
		stop()
		for range 2 {
			if err := <-results; err != nil {
				t.Errorf("a wait ended with %v", err)
			}
		}
		if item, err := watch.Recv(); err != nil || item.GetEnd() == nil {
			t.Errorf("the watch ended with %v, %v", item, err)
		}
		if took := time.Since(began); took > 4*time.Second {
			t.Errorf("stopping took %s", took)
		}
	})
	t.Run("before Start, twice, and no Start after it", func(t *testing.T) {
		service, err := task.New(t.Context(), newRig(t).cfg, task.Deps{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := service.Stop(t.Context()); err != nil {
				t.Errorf("Stop: %v", err)
			}
		}
		if service.Start(t.Context()) == nil {
			t.Error("started after Stop")
		}
	})
}

// TestAccess checks who may call what with authentication on.
func TestAccess(t *testing.T) {
	const secret = "0123456789abcdef0123456789abcdef"
	minter, err := access.NewMinter(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	r.auth = access.Config{Mode: access.ModeJWT, JWTAlgorithm: "HS256", JWTKey: config.Secret(secret)}
	r.opts = access.Options{KeySet: minter.KeySet()}
	r.start(t)
	c := r.client(t)
	token := func(claims access.ClientClaims) string { return sign(t, secret, claims) }
	ana := token(access.ClientClaims{Tenant: "acme", User: "ana", Agents: []string{"coder"}, Verbs: []string{"task.read", "task.write"}})
	reader := token(access.ClientClaims{Tenant: "acme", User: "ana", Agents: []string{"coder"}, Verbs: []string{"task.read"}})
	service := token(access.ClientClaims{Tenant: "acme", Service: true, Agents: []string{"*"}, Verbs: []string{"*"}})
	elsewhere := token(access.ClientClaims{Tenant: "other", Service: true, Agents: []string{"*"}, Verbs: []string{"*"}})
	with := func(token, user string) context.Context {
		return access.NewTokenContext(as(t, user, "s1"), token)
	}
	runOf := func(user, run string) context.Context {
		id := identity.Identity{Tenant: "acme", Agent: "coder", User: user, Session: "s1"}
		bucket, err := id.Bucket()
		if err != nil {
			t.Fatal(err)
		}
		capability, _, err := minter.Mint(access.Capability{Identity: id, Bucket: bucket, Run: run, Verbs: []string{"task.read", "task.write"}})
		if err != nil {
			t.Fatal(err)
		}
		return with(capability, user)
	}
	lease := &taskv1.LeaseTasksRequest{WorkerId: "w", MaxTasks: 9, MaxWait: durationpb.New(0)}
	want := func(what string, err error, reason string) {
		t.Helper()
		if errdefs.ReasonOf(err) != reason {
			t.Errorf("%s: %v, want reason %s", what, err, reason)
		}
	}

	made, err := c.CreateTask(with(ana, "ana"), &taskv1.CreateTaskRequest{Kind: "job"})
	if err != nil {
		t.Fatal(err)
	}
	if got := made.GetTask(); got.GetIdentity().GetTenant() != "acme" || len(got.GetGrant().GetVerbs()) != 2 || got.GetGrant().GetPathsLimited() {
		t.Errorf("identity %v, grant %v", got.GetIdentity(), got.GetGrant())
	}
	_, err = c.CreateTask(with(reader, "ana"), &taskv1.CreateTaskRequest{Kind: "job"})
	want("a reader creates", err, access.ReasonVerbMissing)
	_, err = c.LeaseTasks(with(ana, "ana"), lease)
	want("a client leases", err, access.ReasonAudience)
	_, err = c.CreateTask(with(ana, "ana"), &taskv1.CreateTaskRequest{Kind: "job", ChildThread: &commonv1.Thread{Agent: "boss", User: "ana", Session: "x"}})
	want("a client names an agent that it may not use", err, "THREAD_NOT_ALLOWED")
	_, err = c.LeaseTasks(runOf("ana", "r1"), lease)
	want("a run leases", err, "WORKER_NOT_ALLOWED")
	if got, err := c.LeaseTasks(with(elsewhere, ""), lease); err != nil || len(got.GetTasks()) != 0 {
		t.Errorf("a worker of another tenant gets %v, %v", got, err)
	}
	leased, err := c.LeaseTasks(with(service, ""), lease)
	if err != nil || len(leased.GetTasks()) != 1 {
		t.Fatalf("LeaseTasks: %v, %v", leased, err)
	}
	done := &taskv1.CompleteTaskRequest{TaskId: made.GetTask().GetId(), WorkerId: "w", FencingToken: leased.GetTasks()[0].GetLease().GetFencingToken()}
	_, err = c.CompleteTask(runOf("bob", "r2"), done)
	want("a run of another user completes", err, "TASK_NOT_FOUND")
	_, err = c.CompleteTask(with(elsewhere, ""), done)
	want("a worker of another tenant completes", err, "TASK_NOT_FOUND")
	if _, err := c.CompleteTask(runOf("ana", "r1"), done); err != nil {
		t.Errorf("the run itself completes: %v", err)
	}
}

func TestConfig(t *testing.T) {
	var fromTags struct {
		task.Config `embed:""`
	}
	if err := config.Load(&fromTags, nil, config.Options{LookupEnv: func(string) (string, bool) { return "", false }}); err != nil {
		t.Fatal(err)
	}
	if fromTags.Config != task.DefaultConfig() {
		t.Errorf("the tags say %+v, DefaultConfig %+v", fromTags.Config, task.DefaultConfig())
	}
	bad := task.DefaultConfig()
	bad.Store, bad.LivePerOwner, bad.CancelGrace, bad.RetainAge = "paper", 0, 0, -1
	err := bad.Validate()
	for _, word := range []string{"store", "live-per-owner", "cancel-grace", "retain-age"} {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not name %s: %v", word, err)
		}
	}
	blocked := task.DefaultConfig()
	blocked.Database = filepath.Join(os.DevNull, "tasks.db")
	if _, err := task.New(t.Context(), blocked, task.Deps{}); err == nil {
		t.Error("a database below a file was opened")
	}
}
