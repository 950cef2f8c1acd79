package run

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// titleBytes bounds the title that a thread gets from its first input.
const titleBytes = 120

// callData is what settings keep of the call, for the replica that goes on with the run.
type callData struct {
	Input  json.RawMessage `json:"input,omitempty"`
	Child  *Child          `json:"child,omitempty"`
	Bucket string          `json:"bucket,omitempty"`
	Place  string          `json:"place,omitempty"`
}

// startRun opens the run that a mail asks for.
func (a *actor) startRun(mail *threadv1.Mail, e envelope) error {
	in, err := e.input()
	if err != nil {
		return err
	}
	scope, err := identity.ParseScope(e.Scope)
	if err != nil {
		return err
	}
	a.identity.Scope, a.identity.RequestID = scope, e.RequestID
	if err := a.setUp(in, e.Child, e.Bucket, e.RunID); err != nil {
		a.consume(mail.GetMessageId())
		return a.endUnstarted(e.RunID, threadv1.RunState_RUN_STATE_FAILED, reasonOf(err, "failed"), messageOf(err))
	}
	a.call.Attributes = a.m.takeAttributes(e.RunID)
	kit, err := a.buildKit(e.RunID, "")
	if err != nil {
		if transient(err) && (a.thread.Context().Err() != nil || a.draining()) {
			return err
		}
		a.consume(mail.GetMessageId())
		return a.endUnstarted(e.RunID, threadv1.RunState_RUN_STATE_FAILED, reasonOf(err, "definition_invalid"), messageOf(err))
	}
	a.kit = kit
	return a.openRun(mail, e, in)
}

func (a *actor) openRun(mail *threadv1.Mail, e envelope, in *orchestratorv1.RunInput) error {
	settings := a.kit.Settings()
	data, err := a.callData()
	if err != nil {
		return err
	}
	if settings.Call, err = json.Marshal(data); err != nil {
		return err
	}
	structured, err := settings.Struct()
	if err != nil {
		return err
	}
	name, _ := a.kit.Models()
	started := &threadv1.RunStarted{
		Cause: e.Cause, Identity: identityProto(a.identity), RequestId: e.RequestID, Model: a.m.modelName(a.context(), name), DefinitionRevision: a.kit.Revision(), Settings: structured,
	}
	if c := e.Child; c != nil {
		started.TaskId, started.ParentRunId, started.ParentThread, started.Depth = c.TaskID, c.ParentRunID, c.Parent, int32(c.Depth)
	}
	a.consume(mail.GetMessageId())
	if len(a.state.Conversation) == 0 {
		a.batch.Title = title(in.GetText())
	}
	if err := a.stageFor(e.RunID, e.RunID, 0, &threadv1.EventPayload{Kind: &threadv1.EventPayload_RunStarted{RunStarted: started}}); err != nil {
		return err
	}
	if m := inputMessage(mail.GetMessageId(), in); len(m.GetBlocks()) > 0 {
		if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_InputReceived{InputReceived: &threadv1.InputReceived{MessageId: mail.GetMessageId(), Message: m}}}); err != nil {
			return err
		}
	}
	for _, n := range a.kit.Notices() {
		if err := a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_NoticeShown{NoticeShown: n}}); err != nil {
			return err
		}
	}
	return a.flush(false)
}

// wakeUp starts a run for a result that asked for one.
func (a *actor) wakeUp(mail *threadv1.Mail, result *threadv1.TaskDelivered) error {
	raw, err := inputBytes(&orchestratorv1.RunInput{})
	if err != nil {
		return err
	}
	e := envelope{RunID: runID(a.key, mail.GetMessageId()), Cause: CauseWakeUp, Input: raw}
	if l := a.state.Latest; l != nil {
		e.Scope = IdentityOf(l.Started.GetIdentity()).Scope.String()
	}
	if err := a.startRun(mail, e); err != nil || a.state.Run == nil {
		return err
	}
	return a.stage(&threadv1.EventPayload{Kind: &threadv1.EventPayload_TaskDelivered{TaskDelivered: result}})
}

// setUp fixes whose run this is and what it may do.
func (a *actor) setUp(in *orchestratorv1.RunInput, child *Child, bucketKey, run string) error {
	a.call, a.child = proto.CloneOf(in), child
	a.call.Text, a.call.Media = "", nil
	var err error
	if bucketKey != "" {
		a.bucket, err = identity.ParseBucket(bucketKey)
	} else {
		a.bucket, err = a.identity.Bucket()
	}
	if err != nil {
		return err
	}
	a.credential = nil
	if a.m.issuer != nil {
		a.credential = a.m.issuer.For(access.Capability{Identity: a.plainIdentity(), Bucket: a.bucket, Run: run, Epoch: a.thread.Epoch(), Verbs: runVerbs})
		if child != nil {
			a.credential = a.credential.Narrow(child.Verbs, child.Prefixes)
		}
	}
	return nil
}

// runVerbs are those that a run's own work needs; each call gets a part of them.
var runVerbs = []string{
	"fs.read", "fs.write", "exec", "memory.read", "memory.write", "task.read", "task.write", "thread.read", "thread.write", "run.read", "run.write", "agent.read",
}

func (a *actor) plainIdentity() identity.Identity {
	id := a.identity
	id.RequestID, id.Effect, id.Sandbox = "", "", ""
	return id
}

func (a *actor) kitFacts(run, place string) Facts {
	return Facts{Identity: a.identity, Bucket: a.bucket, Place: place, RunID: run, Call: a.call, Attributes: a.call.GetAttributes(), Child: a.child, State: a}
}

func (a *actor) callData() (callData, error) {
	kept := proto.CloneOf(a.call)
	kept.Attributes = nil
	raw, err := protojson.Marshal(kept)
	if err != nil {
		return callData{}, err
	}
	out := callData{Input: raw, Child: a.child, Place: a.kit.Place()}
	if own, err := a.identity.Bucket(); err != nil || own != a.bucket {
		out.Bucket = a.bucket.Key()
	}
	return out, nil
}

// adopt makes the open run of a restored thread this actor's: as it was started, without what is never persisted.
func (a *actor) adopt(r *loop.Run) error {
	a.identity = IdentityOf(r.Started.GetIdentity())
	a.identity.RequestID = r.Started.GetRequestId()
	data, in, err := callOf(r)
	if err != nil {
		return err
	}
	if err := a.setUp(in, data.Child, data.Bucket, r.ID); err != nil {
		return err
	}
	kit, err := a.buildKit(r.ID, data.Place)
	if err != nil {
		return err
	}
	a.kit = kit
	return nil
}

// callOf is what a run was started with.
func callOf(r *loop.Run) (data callData, in *orchestratorv1.RunInput, err error) {
	if len(r.Settings.Call) > 0 {
		if err := json.Unmarshal(r.Settings.Call, &data); err != nil {
			return data, nil, fmt.Errorf("run %s: settings: %w", r.ID, err)
		}
	}
	in = &orchestratorv1.RunInput{}
	if len(data.Input) > 0 {
		if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data.Input, in); err != nil {
			return data, nil, fmt.Errorf("run %s: settings: %w", r.ID, err)
		}
	}
	return data, in, nil
}

// FactsOf is what the kit of a run was made for, for those who only look at it.
func FactsOf(r *loop.Run) (Facts, error) {
	data, in, err := callOf(r)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{Identity: IdentityOf(r.Started.GetIdentity()), Place: data.Place, RunID: r.ID, Call: in, Child: data.Child}
	if data.Bucket != "" {
		f.Bucket, err = identity.ParseBucket(data.Bucket)
	} else {
		f.Bucket, err = f.Identity.Bucket()
	}
	return f, err
}

const (
	// kitPatience is how long a run waits for services that it is made with and that do not answer.
	kitPatience            = 30 * time.Second
	firstWait, longestWait = 100 * time.Millisecond, 2 * time.Second
)

// buildKit makes the kit of a run. A service that restarts fails no run: it is waited for.
func (a *actor) buildKit(run, place string) (Kit, error) {
	ctx := a.context()
	end := a.m.now().Add(kitPatience)
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		kit, err := a.m.kits.Kit(ctx, a.kitFacts(run, place))
		if err == nil || !transient(err) || a.m.now().After(end) {
			return kit, err
		}
		a.log.Info("a run waits for a service that does not answer", "run", run, "error", err)
		select {
		case <-ctx.Done():
			return nil, err
		case <-a.drain:
			return nil, err
		case <-time.After(wait):
		}
	}
}

// inputMessage is what the user said.
func inputMessage(id string, in *orchestratorv1.RunInput) *threadv1.Message {
	m := loop.Text(id, threadv1.Role_ROLE_USER, "", in.GetText())
	for _, media := range in.GetMedia() {
		m.Blocks = append(m.Blocks, &threadv1.ContentBlock{Block: &threadv1.ContentBlock_Media{Media: media}})
	}
	return m
}

func title(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	if len(line) > titleBytes {
		line = strings.ToValidUTF8(line[:titleBytes], "") + "…"
	}
	return line
}

// labelOf names the child whose settings these are: its label, else its subagent.
func labelOf(s loop.Settings) string {
	var data callData
	if len(s.Call) == 0 || json.Unmarshal(s.Call, &data) != nil || data.Child == nil {
		return ""
	}
	if data.Child.Label != "" {
		return data.Child.Label
	}
	return data.Child.Subagent
}

func emptyInput() *orchestratorv1.RunInput { return &orchestratorv1.RunInput{} }
