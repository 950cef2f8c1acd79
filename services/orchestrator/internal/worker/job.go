package worker

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/proto"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

// resultBytes is what a task's result holds itself; the rest is in a blob.
const resultBytes = 48 << 10

// do works on one task until its run has ended or waits, and reports.
func (w *Worker) do(j *job) {
	ended, err := w.runTask(j)
	if j.ctx.Err() != nil {
		return // the lease is lost, or the worker stops: whoever has the lease next goes on with the same run
	}
	if err != nil {
		w.fail(j, reasonOf(err), publicOf(err), retryable(err), "")
		return
	}
	w.report(j, ended)
}

// runTask starts or finds the task's run and watches it.
func (w *Worker) runTask(j *job) (*orchestratorv1.Run, error) {
	t := j.task
	child, id, bucket, err := parse(t)
	if err != nil {
		return nil, err
	}
	ctx := identity.NewContext(j.ctx, id)
	if b, err := identity.ParseBucket(bucket); err == nil {
		ctx = identity.NewBucketContext(ctx, b)
	}
	in := &orchestratorv1.RunInput{Text: t.GetInput().GetText(), RequestId: requestID(t)}
	started, err := w.runs.SubmitChild(ctx, id, in, child, bucket)
	if err != nil {
		return nil, err
	}
	j.mu.Lock()
	j.identity, j.run = ctx, started.Run.GetId()
	j.mu.Unlock()
	key, err := id.Thread()
	if err != nil {
		return nil, err
	}
	for _, a := range t.GetAnswers() {
		if err := w.runs.Respond(ctx, key, a.GetInteractionId(), answerOf(a), a.GetActor()); err != nil {
			return nil, err
		}
	}
	if t.GetCancelRequested() {
		w.cancelRun(j, "the task was cancelled")
	}
	w.runs.Take(key)
	if len(t.GetAnswers()) > 0 {
		if err := w.runs.Answered(ctx, interactionIDs(t)); err != nil {
			return nil, err
		}
	}
	return w.runs.Watch(ctx, started, func(*orchestratorv1.RunEvent) error { return nil })
}

func interactionIDs(t *taskv1.Task) []string {
	var ids []string
	for _, a := range t.GetAnswers() {
		ids = append(ids, a.GetInteractionId())
	}
	return ids
}

// requestID names the run of an attempt. A lease that goes on with earlier work finds the run that it began.
func requestID(t *taskv1.Task) string {
	if t.GetAttempts() > 1 && !t.GetLease().GetResumed() {
		return fmt.Sprintf("task/%s/%d", t.GetId(), t.GetAttempts())
	}
	return "task/" + t.GetId()
}

// parse reads on whose behalf the task works, in which bucket, and under which ceilings.
func parse(t *taskv1.Task) (*run.Child, identity.Identity, string, error) {
	child := &run.Child{}
	if data := t.GetInput().GetData(); data != nil {
		raw, err := data.MarshalJSON()
		if err == nil {
			err = json.Unmarshal(raw, child)
		}
		if err != nil {
			return nil, identity.Identity{}, "", errdefs.New(errdefs.ErrInvalidArgument, run.Domain, "SPEC_INVALID", "the task's data is not that of a child run: %w", err)
		}
	}
	child.TaskID, child.Parent, child.Label = t.GetId(), t.GetParentThread(), t.GetLabel()
	child.Depth = max(child.Depth, 1)
	if g := t.GetGrant(); len(g.GetVerbs()) > 0 && g.GetVerbs()[0] != "*" {
		child.Verbs = g.GetVerbs()
		if g.GetPathsLimited() {
			child.Prefixes = g.GetPathPrefixes()
		}
	}
	id := run.IdentityOf(t.GetIdentity())
	id.Session = t.GetChildThread().GetSession()
	if id.Session == "" {
		sum := sha256.Sum256([]byte(t.GetId()))
		id.Session = "sub-" + hex.EncodeToString(sum[:16])
	}
	if !child.Shared {
		id.Scope = identity.ScopeSession
		return child, id, "", id.Validate()
	}
	return child, id, t.GetBucket(), id.Validate()
}

// report tells the task service how the run ended.
func (w *Worker) report(j *job, r *orchestratorv1.Run) {
	done := r.GetState() == threadv1.RunState_RUN_STATE_COMPLETED && r.GetReason() == loop.ReasonDone && strings.TrimSpace(r.GetText()) != ""
	switch {
	case r.GetState() == threadv1.RunState_RUN_STATE_SUSPENDED:
		w.call(j, "suspend", func(ctx context.Context) error {
			_, err := w.tasks.SuspendTask(ctx, &taskv1.SuspendTaskRequest{
				TaskId: j.task.GetId(), WorkerId: w.id, FencingToken: j.task.GetLease().GetFencingToken(), Waiting: &taskv1.Waiting{Interactions: r.GetInteractions()}, Progress: progress(r),
			})
			return err
		})
	case done:
		w.call(j, "complete", func(ctx context.Context) error {
			result, err := w.result(ctx, j, r)
			if err != nil {
				return err
			}
			_, err = w.tasks.CompleteTask(ctx, &taskv1.CompleteTaskRequest{
				TaskId: j.task.GetId(), WorkerId: w.id, FencingToken: j.task.GetLease().GetFencingToken(), Result: result, Progress: progress(r),
			})
			return err
		})
	default:
		reason, message := r.GetReason(), r.GetMessage()
		if reason == loop.ReasonDone {
			reason, message = "empty_answer", "the run ended without saying anything"
		}
		w.fail(j, reason, message, retryableReasons[reason], r.GetText())
	}
}

// retryableReasons are those of runs that may do better another time.
var retryableReasons = map[string]bool{"model_rate_limited": true, "model_overloaded": true, "model_unavailable": true, "model_timeout": true, "service_unavailable": true}

func (w *Worker) fail(j *job, reason, message string, retry bool, text string) {
	w.call(j, "fail", func(ctx context.Context) error {
		req := &taskv1.FailTaskRequest{
			TaskId: j.task.GetId(), WorkerId: w.id, FencingToken: j.task.GetLease().GetFencingToken(),
			Error: &taskv1.TaskError{Reason: cut(reason, 128), Message: cut(message, 4096), Retryable: retry},
		}
		if strings.TrimSpace(text) != "" {
			req.PartialResult = &taskv1.TaskResult{Text: cut(text, resultBytes), Truncated: len(text) > resultBytes}
		}
		_, err := w.tasks.FailTask(ctx, req)
		return err
	})
}

// call reports until there is an answer: a report is idempotent under the lease.
func (w *Worker) call(j *job, what string, do func(context.Context) error) {
	for j.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(of(j.ctx, j.task.GetIdentity().GetTenant()), lease)
		err := do(ctx)
		cancel()
		if err == nil || !errors.Is(err, errdefs.ErrUnavailable) && !errors.Is(err, errdefs.ErrDeadlineExceeded) {
			if err != nil && j.ctx.Err() == nil {
				w.cfg.Log.Warn("the end of a task could not be reported", "task", j.task.GetId(), "what", what, "error", err)
			}
			return
		}
		w.sleep(pause)
	}
}

// result is the run's text, by way of a blob when it is large.
func (w *Worker) result(ctx context.Context, j *job, r *orchestratorv1.Run) (*taskv1.TaskResult, error) {
	text := r.GetText()
	out := &taskv1.TaskResult{Text: cut(text, resultBytes), Data: proto.CloneOf(r.GetOutput())}
	if len(text) <= resultBytes {
		return out, nil
	}
	id, _ := identity.FromContext(j.identity)
	blob, err := w.threads.PutBlob(identity.NewContext(ctx, id), &threadv1.PutBlobRequest{Data: []byte(text)})
	if err != nil {
		return nil, err
	}
	out.Truncated, out.FullTextBlobSha256, out.FullTextBytes = true, blob.GetSha256(), int64(len(text))
	return out, nil
}

func progress(r *orchestratorv1.Run) *taskv1.Progress {
	u := r.GetUsage()
	return &taskv1.Progress{Steps: int64(r.GetSteps()), Tokens: u.GetInputTokens() + u.GetOutputTokens(), CostMicros: u.GetCostMicros()}
}

func answerOf(a *taskv1.InteractionAnswer) run.Answer {
	fields := a.GetData().GetFields()
	out := run.Answer{
		Decision: a.GetDecision(), Answers: a.GetTexts(), Edited: fields["edited_arguments_json"].GetStringValue(), Rule: fields["remember_rule"].GetStringValue(),
	}
	if a.GetDecision() == "deny" {
		out.Reason = strings.Join(a.GetTexts(), "\n")
	}
	if res := fields["result"].GetStructValue(); res != nil {
		status := threadv1.ToolStatus(threadv1.ToolStatus_value[res.GetFields()["status"].GetStringValue()])
		out.Result, _ = proto.Marshal(&threadv1.ToolResult{Status: status, Text: res.GetFields()["text"].GetStringValue(), Reason: res.GetFields()["reason"].GetStringValue()})
	}
	return out
}

func reasonOf(err error) string {
	if r := errdefs.ReasonOf(err); r != "" {
		return strings.ToLower(r)
	}
	return "failed"
}

func publicOf(err error) string {
	var e *errdefs.Error
	if errors.As(err, &e) {
		return e.Public()
	}
	return errdefs.ClassOf(err).Error()
}

func retryable(err error) bool {
	return errors.Is(err, errdefs.ErrUnavailable) || errors.Is(err, errdefs.ErrResourceExhausted) || errors.Is(err, errdefs.ErrDeadlineExceeded)
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}
