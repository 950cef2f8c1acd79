package run

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"sync"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
)

// Started is a run that was accepted.
type Started struct {
	Run *orchestratorv1.Run
	// After is the sequence from which the run's events are to be watched.
	After int64
	// Steered is the message by which the input was given to a working run instead; Run is that run.
	Steered string
	own     string
	begin   func()
}

// Go lets the run begin. A watcher calls it when it is ready, so that it misses nothing; who does not watch calls it at once.
func (s Started) Go() {
	if s.begin != nil {
		s.begin()
	}
}

// Submit accepts an input: it is in the thread's mailbox when Submit returns. A repeat with the same request id and content is the same run.
func (m *Manager) Submit(ctx context.Context, id identity.Identity, in *orchestratorv1.RunInput) (Started, error) {
	return m.submit(ctx, id, in, nil, "")
}

// SubmitChild accepts the input of a task's run. Nobody but the task's worker, who calls it, takes the thread for it: see [Manager.Take].
func (m *Manager) SubmitChild(ctx context.Context, id identity.Identity, in *orchestratorv1.RunInput, child *Child, bucket string) (Started, error) {
	return m.submit(ctx, id, in, child, bucket)
}

func (m *Manager) submit(ctx context.Context, id identity.Identity, in *orchestratorv1.RunInput, child *Child, bucket string) (Started, error) {
	key, err := id.Thread()
	if err != nil {
		return Started{}, err
	}
	if child == nil { // a task was admitted when it was leased
		if err := m.admit(key); err != nil {
			return Started{}, err
		}
	}
	request := in.GetRequestId()
	if request == "" {
		request = random()
	}
	run := runID(key, request)
	head, err := m.head(ctx)
	if err != nil {
		return Started{}, err
	}
	steering, err := m.busy(ctx, head, in, run)
	if err != nil {
		return Started{}, err
	}
	raw, err := inputBytes(in)
	if err != nil {
		return Started{}, err
	}
	e := envelope{RunID: run, RequestID: request, Cause: CauseCall, Scope: id.Scope.String(), Bucket: bucket, Input: raw, Child: child, Actor: id.User}
	kind := mailInput
	if child != nil {
		e.Cause = CauseTask
	}
	started := Started{After: head.GetSeq(), own: run, Run: &orchestratorv1.Run{
		Id: run, Thread: threadProto(key), Scope: scopeProto(id.Scope), State: threadv1.RunState_RUN_STATE_QUEUED, RequestId: request,
	}}
	if steering {
		kind, e.RunID, e.Text = mailSteer, head.GetOpenRunId(), in.GetText()
		started.Steered, started.Run.Id = kind+"/"+run, head.GetOpenRunId()
		started.Run.State = threadv1.RunState_RUN_STATE_RUNNING
	}
	m.keepAttributes(run, in.GetAttributes())
	begin := func() {}
	if child == nil {
		begin = sync.OnceFunc(m.reserve(ctx, key))
	}
	started.begin = begin
	dup, err := m.post(ctx, key, kind+"/"+run, kind, e, child == nil)
	if err != nil {
		begin()
		if errdefs.ReasonOf(err) == "MESSAGE_MISMATCH" {
			err = errdefs.New(errdefs.ErrAborted, Domain, "REQUEST_MISMATCH", "the request id was used for another input").With("request_id", request)
		}
		return Started{}, err
	}
	if dup {
		started.After = 0 // it may have run long ago
	}
	return started, nil
}

// head describes the thread; an empty head when there is none yet.
func (m *Manager) head(ctx context.Context) (*threadv1.ThreadHead, error) {
	resp, err := m.threads.Head(ctx, &threadv1.HeadRequest{})
	if notFound(err) {
		return &threadv1.ThreadHead{}, nil
	}
	return resp.GetHead(), err
}

// busy applies the busy policy to a thread that has a run.
func (m *Manager) busy(ctx context.Context, head *threadv1.ThreadHead, in *orchestratorv1.RunInput, run string) (steering bool, err error) {
	if int(head.GetMailCount()) >= m.cfg.MaxQueue {
		return false, tooMany(m.cfg.MaxQueue, "thread")
	}
	if head.GetOpenRunId() == "" || head.GetOpenRunId() == run {
		return false, nil
	}
	switch in.GetBusyPolicy() {
	case orchestratorv1.BusyPolicy_BUSY_POLICY_REFUSE:
		if known, err := m.repeated(ctx, run); known || err != nil {
			return false, err
		}
		return false, errdefs.New(errdefs.ErrAborted, Domain, "THREAD_BUSY", "the thread has a run").With("run_id", head.GetOpenRunId())
	case orchestratorv1.BusyPolicy_BUSY_POLICY_STEER:
		return true, nil
	case orchestratorv1.BusyPolicy_BUSY_POLICY_INTERRUPT:
		return false, m.tell(ctx, ThreadOf(head.GetThread()), "interrupt/"+run, mailInterrupt, envelope{RunID: head.GetOpenRunId()}, false)
	}
	return false, nil
}

// repeated says whether the thread knows the run already, so that a refusal would refuse a repeat.
func (m *Manager) repeated(ctx context.Context, run string) (bool, error) {
	_, err := m.Get(ctx, run)
	if errdefs.ReasonOf(err) == "RUN_NOT_FOUND" {
		return false, nil
	}
	return err == nil, err
}

// tell posts a message and sees to it that somebody reads it.
func (m *Manager) tell(ctx context.Context, key identity.Thread, id, kind string, e envelope, wake bool) error {
	defer m.reserve(ctx, key)()
	_, err := m.post(ctx, key, id, kind, e, wake)
	return err
}

// post puts a message into the thread's mailbox.
func (m *Manager) post(ctx context.Context, key identity.Thread, id, kind string, e envelope, wake bool) (duplicate bool, err error) {
	payload, err := m.seal(ctx, e)
	if err != nil {
		return false, err
	}
	resp, err := m.threads.Post(ctx, &threadv1.PostRequest{Mail: &threadv1.Mail{MessageId: id, Kind: kind, Payload: payload, Wake: wake}})
	if err != nil {
		return false, err
	}
	return resp.GetDuplicate(), nil
}

// Get describes a run of the thread of the context's identity. NOT_FOUND/RUN_NOT_FOUND.
func (m *Manager) Get(ctx context.Context, run string) (*orchestratorv1.Run, error) {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, err
	}
	if r := m.recent(key, run); r != nil {
		return r, nil
	}
	// A queued run starts between a look into the journal and one into the mailbox: then a second look into the journal finds it.
	for range 2 {
		views, err := m.Views(ctx, key)
		if err != nil {
			return nil, err
		}
		if r := views.Find(run); r != nil {
			return r, nil
		}
		if r, err := m.queued(ctx, key, run); r != nil || err != nil {
			return r, err
		}
	}
	return nil, errdefs.New(errdefs.ErrNotFound, Domain, "RUN_NOT_FOUND", "the thread has no such run").With("run_id", run)
}

// recent finds a run without the journal.
func (m *Manager) recent(key identity.Thread, run string) *orchestratorv1.Run {
	a, _ := m.actorOf(key)
	if a != nil {
		if r := a.view.Load(); r != nil && (r.GetId() == run || run == Latest && !terminal(r)) {
			return r
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended[key.Key()+"\x00"+run]
}

func terminal(r *orchestratorv1.Run) bool {
	return outcomes[r.GetState()] != "" && r.GetState() != threadv1.RunState_RUN_STATE_SUSPENDED
}

// Views reads the runs of a thread.
func (m *Manager) Views(ctx context.Context, key identity.Thread) (*Views, error) {
	views := &Views{Thread: threadProto(key)}
	_, err := journal.Scan(ctx, m.threads, &threadv1.ScanRequest{Types: runTypes}, views.Add)
	if notFound(err) {
		return views, nil
	}
	return views, err
}

// queued finds a run that waits in the mailbox.
func (m *Manager) queued(ctx context.Context, key identity.Thread, run string) (*orchestratorv1.Run, error) {
	resp, err := m.threads.ListMail(ctx, &threadv1.ListMailRequest{Limit: 256})
	if notFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for _, mail := range resp.GetMail() {
		if mail.GetKind() != mailInput {
			continue
		}
		e, err := m.unseal(ctx, mail.GetPayload())
		if err != nil || e.RunID != run && run != Latest {
			continue
		}
		scope, _ := identity.ParseScope(e.Scope)
		return &orchestratorv1.Run{
			Id: e.RunID, Thread: threadProto(key), Scope: scopeProto(scope), State: threadv1.RunState_RUN_STATE_QUEUED, RequestId: e.RequestID,
		}, nil
	}
	return nil, nil
}

// open finds a run that has not ended. FAILED_PRECONDITION/RUN_ENDED.
func (m *Manager) open(ctx context.Context, run string) (*orchestratorv1.Run, identity.Thread, error) {
	key, err := identity.ThreadFromContext(ctx)
	if err != nil {
		return nil, key, err
	}
	r, err := m.Get(ctx, run)
	if err != nil {
		return nil, key, err
	}
	if terminal(r) {
		return r, key, errdefs.New(errdefs.ErrFailedPrecondition, Domain, "RUN_ENDED", "the run has ended").With("run_id", r.GetId()).With("state", stateName(r))
	}
	return r, key, nil
}

func stateName(r *orchestratorv1.Run) string {
	const prefix = "RUN_STATE_"
	return r.GetState().String()[len(prefix):]
}

// Cancel asks a run to stop for good. A run that was cancelled already, or has ended that way, is no error.
func (m *Manager) Cancel(ctx context.Context, run, reason string) (*orchestratorv1.Run, error) {
	r, key, err := m.open(ctx, run)
	if err != nil {
		if r.GetState() == threadv1.RunState_RUN_STATE_CANCELLED {
			return r, nil
		}
		return nil, err
	}
	id, _ := identity.FromContext(ctx)
	err = m.tell(ctx, key, "cancel/"+r.GetId(), mailCancel, envelope{RunID: r.GetId(), Text: reason, Actor: id.User}, true)
	if err != nil && errdefs.ReasonOf(err) != "MESSAGE_MISMATCH" { // asked for already, with another reason
		return nil, err
	}
	out := r
	if got, err := m.Get(ctx, r.GetId()); err == nil {
		out = got
	}
	return out, nil
}

// Steer gives a working run a text.
func (m *Manager) Steer(ctx context.Context, run string, kind orchestratorv1.SteerKind, text, messageID string) (string, error) {
	r, key, err := m.open(ctx, run)
	if err != nil {
		return "", err
	}
	if messageID == "" {
		messageID = random()
	}
	mail := mailSteer
	switch kind {
	case orchestratorv1.SteerKind_STEER_KIND_INJECT:
		mail = mailInject
	case orchestratorv1.SteerKind_STEER_KIND_INTERRUPT:
		mail = mailInterrupt
	}
	if text == "" && mail != mailInterrupt {
		return "", errdefs.New(errdefs.ErrInvalidArgument, Domain, "SPEC_INVALID", "a text is needed").With("field", "text")
	}
	id, _ := identity.FromContext(ctx)
	err = m.tell(ctx, key, mail+"/"+messageID, mail, envelope{RunID: r.GetId(), Scope: id.Scope.String(), Text: text, Actor: id.User}, mail == mailInterrupt)
	return messageID, err
}

// Respond posts the answer to an interaction of the thread of the context's identity.
func (m *Manager) Respond(ctx context.Context, key identity.Thread, interaction string, ans Answer, who string) error {
	raw, err := json.Marshal(answer(ans))
	if err != nil {
		return err
	}
	// The id names the answer and not the interaction: a second one must not be refused for being another message.
	id := "answer/" + runID(key, interaction+"\x00"+string(raw))
	return m.tell(ctx, key, id, mailAnswer, envelope{ID: interaction, Answer: raw, Actor: who}, true)
}

// Answer is an answer to an interaction.
type Answer struct {
	Decision string
	Edited   string
	Rule     string
	Answers  []string
	Result   []byte
	Reason   string
}

func random() string {
	var raw [16]byte
	rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

// NewSession makes a session id: 128 random bits, for an anonymous session is reached by whoever knows its id.
func NewSession() string { return "s-" + random() }

func itoa(n int) string { return strconv.Itoa(n) }

// BusyError turns the refusal of a run by its thread into the error of the call.
func BusyError(r *orchestratorv1.Run) error {
	if r.GetState() == threadv1.RunState_RUN_STATE_FAILED && r.GetReason() == reasonBusy {
		return errdefs.New(errdefs.ErrAborted, Domain, "THREAD_BUSY", "the thread has a run").With("run_id", r.GetId())
	}
	return nil
}
