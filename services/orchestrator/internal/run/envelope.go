package run

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/protobuf/proto"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
)

// The kinds of mail.
const (
	mailInput      = "input"
	mailSteer      = "steer"
	mailInject     = "inject"
	mailInterrupt  = "interrupt"
	mailCancel     = "cancel"
	mailAnswer     = "answer"
	mailTaskResult = "task_result"
	mailExpiry     = "expiry"
	mailWakeUp     = "wake_up"
)

// The causes of runs.
const (
	CauseCall   = "call"
	CauseTask   = "task"
	CauseWakeUp = "wake_up"
	CauseSteer  = "steer"
)

// inlineBytes is what a mail holds itself; more goes into a blob. The store's limit is 64 KiB.
const inlineBytes = 48 << 10

// envelope is the payload of the orchestrator's own mail. Equal requests give equal bytes: that is what makes a repeated start the same start.
type envelope struct {
	// RunID is the run that the mail is about, or that an input starts.
	RunID     string          `json:"run_id,omitempty"`
	RequestID string          `json:"request_id,omitempty"`
	Cause     string          `json:"cause,omitempty"`
	Scope     string          `json:"scope,omitempty"`
	Bucket    string          `json:"bucket,omitempty"` // key; set where it does not follow from the identity
	Input     []byte          `json:"input,omitempty"`  // RunInput, without attributes
	Child     *Child          `json:"child,omitempty"`
	Text      string          `json:"text,omitempty"`
	Actor     string          `json:"actor,omitempty"`
	Answer    json.RawMessage `json:"answer,omitempty"` // answer
	ID        string          `json:"id,omitempty"`     // interaction
	// Blob holds the envelope when it is too large for a mail.
	Blob string `json:"blob,omitempty"`
}

// answer is an answer to an interaction as it travels.
type answer struct {
	Decision string   `json:"decision"`
	Edited   string   `json:"edited,omitempty"`
	Rule     string   `json:"rule,omitempty"`
	Answers  []string `json:"answers,omitempty"`
	Result   []byte   `json:"result,omitempty"`
	Reason   string   `json:"reason,omitempty"`
}

var deterministic = proto.MarshalOptions{Deterministic: true}

// inputBytes is the input as it travels: without what is never persisted.
func inputBytes(in *orchestratorv1.RunInput) ([]byte, error) {
	in = proto.CloneOf(in)
	in.Attributes = nil
	return deterministic.Marshal(in)
}

func (e envelope) input() (*orchestratorv1.RunInput, error) {
	in := &orchestratorv1.RunInput{}
	if err := proto.Unmarshal(e.Input, in); err != nil {
		return nil, fmt.Errorf("the input of run %s can't be read: %w", e.RunID, err)
	}
	return in, nil
}

// seal makes the payload of a mail, by way of a blob when it is large.
func (m *Manager) seal(ctx context.Context, e envelope) ([]byte, error) {
	raw, err := json.Marshal(e)
	if err != nil || len(raw) <= inlineBytes {
		return raw, err
	}
	resp, err := m.threads.PutBlob(ctx, &threadv1.PutBlobRequest{Data: raw})
	if err != nil {
		return nil, err
	}
	return json.Marshal(envelope{RunID: e.RunID, Blob: resp.GetSha256()})
}

// unseal reads the payload of a mail.
func (m *Manager) unseal(ctx context.Context, payload []byte) (envelope, error) {
	var e envelope
	if err := json.Unmarshal(payload, &e); err != nil {
		return e, fmt.Errorf("mail: %w", err)
	}
	if e.Blob == "" {
		return e, nil
	}
	resp, err := m.threads.GetBlob(ctx, &threadv1.GetBlobRequest{Sha256: e.Blob})
	if err != nil {
		return e, err
	}
	e = envelope{}
	if err := json.Unmarshal(resp.GetData(), &e); err != nil {
		return e, fmt.Errorf("mail: %w", err)
	}
	return e, nil
}

// threadProto is the message form of a thread key.
func threadProto(t identity.Thread) *commonv1.Thread {
	return &commonv1.Thread{Tenant: t.Tenant, Agent: t.Agent, User: t.User, Session: t.Session}
}

// ThreadOf reads the message form.
func ThreadOf(t *commonv1.Thread) identity.Thread {
	return identity.Thread{Tenant: t.GetTenant(), Agent: t.GetAgent(), User: t.GetUser(), Session: t.GetSession()}
}

func identityProto(id identity.Identity) *commonv1.Identity {
	return &commonv1.Identity{Tenant: id.Tenant, Agent: id.Agent, User: id.User, Session: id.Session, Scope: scopeProto(id.Scope)}
}

// IdentityOf reads the message form of an identity.
func IdentityOf(id *commonv1.Identity) identity.Identity {
	return identity.Identity{Tenant: id.GetTenant(), Agent: id.GetAgent(), User: id.GetUser(), Session: id.GetSession(), Scope: ScopeOf(id.GetScope())}
}

func scopeProto(s identity.Scope) commonv1.Scope {
	switch s {
	case identity.ScopeSession:
		return commonv1.Scope_SCOPE_SESSION
	case identity.ScopeAgent:
		return commonv1.Scope_SCOPE_AGENT
	case identity.ScopeGlobal:
		return commonv1.Scope_SCOPE_GLOBAL
	}
	return commonv1.Scope_SCOPE_USER
}

// ScopeOf reads the message form of a scope; unspecified is the scope user.
func ScopeOf(s commonv1.Scope) identity.Scope {
	switch s {
	case commonv1.Scope_SCOPE_SESSION:
		return identity.ScopeSession
	case commonv1.Scope_SCOPE_AGENT:
		return identity.ScopeAgent
	case commonv1.Scope_SCOPE_GLOBAL:
		return identity.ScopeGlobal
	}
	return identity.ScopeUser
}
