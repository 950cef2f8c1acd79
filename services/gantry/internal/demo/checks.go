package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
)

// journal reads the events of the context's thread.
func (d *demo) journal(ctx context.Context) ([]*threadv1.Event, error) {
	stream, err := d.Threads.Scan(ctx, &threadv1.ScanRequest{})
	if err != nil {
		return nil, err
	}
	var events []*threadv1.Event
	for {
		item, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil, errors.New("the journal's stream has no end message")
		}
		if err != nil {
			return nil, err
		}
		if item.GetEnd() != nil {
			return events, nil
		}
		events = append(events, item.GetEvent())
	}
}

// knowledge compares what the journal says was read with the file itself.
func (d *demo) knowledge(ctx context.Context) error {
	file, err := d.Files.Read(ctx, &fsv1.ReadRequest{Path: "knowledge/KNOWLEDGE.md"})
	if err != nil {
		return err
	}
	if strings.TrimSpace(file.GetText()) == "" {
		return errors.New("the file is empty")
	}
	events, err := d.journal(ctx)
	if err != nil {
		return err
	}
	for _, e := range events {
		if r := e.GetPayload().GetToolEnded().GetResult(); r.GetName() == "read_file" && strings.TrimSpace(r.GetText()) == strings.TrimSpace(file.GetText()) {
			return nil
		}
	}
	return errors.New("no call in the journal read it")
}

// file reads the report and compares its hash with that of what must stand in it.
func (d *demo) file(ctx context.Context) error {
	got, err := d.Files.Read(ctx, &fsv1.ReadRequest{Path: d.path(), Mode: fsv1.ReadMode_READ_MODE_BYTES})
	if err != nil {
		return err
	}
	if text := strings.TrimSpace(string(got.GetData())); text != "Result of review "+d.mark {
		return fmt.Errorf("%s holds %q", d.path(), text)
	}
	if want := d.hash(got.GetData()); got.GetInfo().GetSha256() != want {
		return fmt.Errorf("its hash is %q, want %s", got.GetInfo().GetSha256(), want)
	}
	return nil
}

func (d *demo) hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// command asks the sandbox for its record of the exec, by effect id, and reads the log of it.
func (d *demo) command(ctx context.Context) error {
	events, err := d.journal(ctx)
	if err != nil {
		return err
	}
	var effect string
	for _, e := range events {
		if t := e.GetPayload().GetToolDispatched(); t.GetName() == "execute" {
			effect = t.GetEffect()
		}
	}
	if effect == "" {
		return errors.New("the journal has no command")
	}
	got, err := d.Sandbox.GetExecRecord(ctx, &sandboxv1.GetExecRecordRequest{Effect: effect})
	if err != nil {
		return err
	}
	record := got.GetRecord()
	if record.GetExit().GetState() != sandboxv1.ExecState_EXEC_STATE_EXITED || record.GetExit().GetCode() != 0 {
		return fmt.Errorf("the sandbox's record says %v, code %d", record.GetExit().GetState(), record.GetExit().GetCode())
	}
	output, err := d.output(ctx, record)
	if err != nil {
		return err
	}
	file, err := d.Files.Read(ctx, &fsv1.ReadRequest{Path: d.path(), Mode: fsv1.ReadMode_READ_MODE_BYTES})
	if err != nil {
		return err
	}
	if !strings.Contains(output, d.hash(file.GetData())) {
		return fmt.Errorf("its output is %q and lacks the hash of the file", output)
	}
	return nil
}

func (d *demo) output(ctx context.Context, record *sandboxv1.ExecRecord) (string, error) {
	stream, err := d.Sandbox.AttachProcess(ctx, &sandboxv1.AttachProcessRequest{SandboxId: record.GetSandboxId(), ExecId: record.GetExecId()})
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return "", errors.New("the log's stream has no exit message")
		}
		if err != nil {
			return "", err
		}
		if msg.GetExit() != nil {
			return out.String(), nil
		}
		out.Write(msg.GetStdout().GetData())
	}
}

// fact searches memory from sessions that had nothing to do with the call.
func (d *demo) fact(ctx context.Context) error {
	search := func(user string) (bool, error) {
		got, err := d.Memory.Search(d.as(ctx, user, "check-"+d.mark), &memoryv1.SearchRequest{Query: "release code " + d.mark})
		if err != nil {
			return false, err
		}
		for _, h := range got.GetHits() {
			if strings.Contains(h.GetSnippet()+h.GetFact().GetText(), d.mark) {
				return true, nil
			}
		}
		return false, nil
	}
	if found, err := search(d.user); err != nil || !found {
		return errors.Join(err, errors.New("a search by the user does not find it"))
	}
	if found, err := search("other-" + d.mark); err != nil || found {
		return errors.Join(err, errors.New("another user's search finds it or fails"))
	}
	return nil
}

// child finds the task of the subagent and reads the end of the child's own journal.
func (d *demo) child(ctx context.Context) error {
	id, _ := identity.FromContext(ctx)
	got, err := d.Tasks.ListTasks(ctx, &taskv1.ListTasksRequest{ParentSession: id.Session})
	if err != nil {
		return err
	}
	if n := len(got.GetTasks()); n != 1 {
		return fmt.Errorf("the call has %d tasks, want 1", n)
	}
	task := got.GetTasks()[0]
	if task.GetState() != taskv1.TaskState_TASK_STATE_COMPLETED {
		return fmt.Errorf("its task is %v: %s", task.GetState(), task.GetError().GetMessage())
	}
	return d.childRan(ctx, task.GetChildThread())
}

func (d *demo) childRan(ctx context.Context, child *commonv1.Thread) error {
	if child.GetSession() == "" {
		return errors.New("its task names no thread")
	}
	events, err := d.journal(d.as(ctx, child.GetUser(), child.GetSession()))
	if err != nil {
		return err
	}
	listed, completed := false, false
	for _, e := range events {
		if r := e.GetPayload().GetToolEnded().GetResult(); r.GetName() == "list_files" && strings.Contains(r.GetText(), "knowledge/KNOWLEDGE.md") {
			listed = true
		}
		completed = completed || e.GetPayload().GetRunEnded().GetState() == threadv1.RunState_RUN_STATE_COMPLETED
	}
	if !listed || !completed {
		return fmt.Errorf("its journal shows listed=%v, completed=%v", listed, completed)
	}
	return nil
}
