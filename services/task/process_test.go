package task_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/run"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task"
)

// asService makes the test binary behave as the task service, so that tests can kill it.
const asService = "GANTRY_TEST_AS_TASK_SERVICE"

// serveProcess is the main function of that process: the same as that of cmd/task.
func serveProcess() int {
	return run.Main(run.Spec[task.Config]{
		Name: "task", Address: "127.0.0.1:0",
		New: func(ctx context.Context, cfg task.Config, env run.Env) (run.Service, error) {
			threads, err := env.Dial(cfg.Threads)
			if err != nil {
				return nil, err
			}
			return task.New(ctx, cfg, task.Deps{Threads: threads, Logger: env.Logger})
		},
	})
}

var servingAt = regexp.MustCompile(`msg=serving.* address=(\S+)`)

// startProcess starts the service as a process and returns its address and what kills it, without any chance to clean up.
func startProcess(t *testing.T, args ...string) (address string, kill func()) {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), asService+"=1")
	output, err := command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var log []string
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		log = append(log, lines.Text())
		if found := servingAt.FindStringSubmatch(lines.Text()); found != nil {
			address = found[1]
			break
		}
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for lines.Scan() {
		}
	}()
	killed := false
	kill = func() {
		if killed {
			return
		}
		killed = true
		_ = command.Process.Kill()
		<-drained
		_ = command.Wait() // it was killed, which is what the error says
	}
	t.Cleanup(kill)
	if address == "" {
		t.Fatalf("the service did not start:\n%s", strings.Join(log, "\n"))
	}
	return address, kill
}

// TestKill kills the process at the worst moment: a completion is acknowledged and the parent does not know of it yet.
func TestKill(t *testing.T) {
	box := newMailbox()
	box.setRefuse(-1)
	threads := serveMailboxAt(t, box)
	database := t.TempDir() + "/tasks.db"
	args := []string{"--address=127.0.0.1:0", "--database=" + database, "--threads=" + threads, "--post-first-wait=20ms", "--post-max-wait=50ms"}

	address, kill := startProcess(t, args...)
	conn, err := client.Dial(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	made := finish(t, taskv1.NewTaskServiceClient(conn), toThread(taskv1.DeliveryMode_DELIVERY_MODE_WAKE), "done")
	box.wait(t, 1)
	kill()
	if got := box.accepted(); len(got) > 0 {
		t.Fatalf("taken before the kill: %v", got)
	}

	box.setRefuse(0)
	address, _ = startProcess(t, args...)
	testkit.Eventually(t, 20*time.Second, func() error {
		if len(box.accepted()) == 0 {
			return errors.New("nothing was delivered")
		}
		return nil
	})
	again, err := client.Dial(address, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	got, err := taskv1.NewTaskServiceClient(again).GetTask(as(t, "ana", "s1"), &taskv1.GetTaskRequest{TaskId: made.GetId()})
	if err != nil || got.GetTask().GetState() != taskv1.TaskState_TASK_STATE_COMPLETED || got.GetTask().GetResult().GetText() != "done" {
		t.Errorf("after the kill: %v, %v", got, err)
	}
	for _, post := range box.accepted() {
		if post.GetMail().GetMessageId() != "task/"+made.GetId() {
			t.Errorf("posted %v", post)
		}
	}
}

// serveMailboxAt serves a mailbox on the loopback and returns its address.
func serveMailboxAt(t *testing.T, m *mailbox) string {
	t.Helper()
	auth, err := access.New(access.Config{}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(server.Config{Address: "127.0.0.1:0"}, chain, nil)
	if err != nil {
		t.Fatal(err)
	}
	threadv1.RegisterThreadServiceServer(s.Registrar(), m)
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(context.Background()) })
	return s.Addr()
}

// TestSettings checks that wrong settings end the program with a line that names them.
func TestSettings(t *testing.T) {
	var out strings.Builder
	code := run.Run(t.Context(), run.Spec[task.Config]{
		Name: "task", Address: "127.0.0.1:0",
		New: func(context.Context, task.Config, run.Env) (run.Service, error) { return nil, errors.New("built") },
	}, []string{"--max-attempts=0"}, config.Options{}, &out)
	if code != run.ExitSettings || !strings.Contains(out.String(), "max-attempts") {
		t.Errorf("code %d: %s", code, out.String())
	}
}
