package inmemory

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

const threadDomain = "gantry.thread.v1"

// OwnerLife is how long an owner lives after a heartbeat.
const OwnerLife = 1500 * time.Millisecond

// Threads implements ThreadService.
type Threads struct {
	threadv1.UnimplementedThreadServiceServer

	mu      sync.Mutex
	changed chan struct{}
	owners  map[string]time.Time // until when each lives
	threads map[identity.Thread]*thread
	blobs   map[string][]byte
	// Commits counts acknowledged commits.
	commits int
	// scanned counts the events that scans gave.
	scanned atomic.Int64
}

type thread struct {
	head     *threadv1.ThreadHead
	owner    *threadv1.Owner
	released bool
	events   []*threadv1.Event
	mail     []*threadv1.Mail
	seen     map[string]string // message id → content hash
	batches  map[string]batch
	order    int64
	redacted int64 // the epoch in which events were redacted last
}

type batch struct {
	hash string
	resp *threadv1.CommitResponse
}

// NewThreads makes an empty store.
func NewThreads() *Threads {
	return &Threads{changed: make(chan struct{}), owners: map[string]time.Time{}, threads: map[identity.Thread]*thread{}, blobs: map[string][]byte{}}
}

// Commits is how many commits were acknowledged.
func (s *Threads) Commits() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.commits
}

// Scanned counts the events that scans gave.
func (s *Threads) Scanned() int64 { return s.scanned.Load() }

// Kill lets an owner die at once, as if its heartbeats had stopped long ago.
func (s *Threads) Kill(owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, owner)
	s.wake()
}

// OwnerOf returns the live owner of a thread.
func (s *Threads) OwnerOf(key identity.Thread) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.threads[key]; t != nil && s.owned(t) {
		return t.owner.GetId()
	}
	return ""
}

// Journal returns a copy of a thread's events.
func (s *Threads) Journal(key identity.Thread) []*threadv1.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*threadv1.Event
	if t := s.threads[key]; t != nil {
		for _, ev := range t.events {
			out = append(out, proto.CloneOf(ev))
		}
	}
	return out
}

// Record makes a thread of recorded events.
func (s *Threads) Record(key identity.Thread, events []*threadv1.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.make(key)
	for _, ev := range events {
		t.events = append(t.events, proto.CloneOf(ev))
		t.head.Seq = ev.GetSeq()
	}
}

func (s *Threads) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *Threads) lives(owner string) bool { return time.Now().Before(s.owners[owner]) }

func (s *Threads) owned(t *thread) bool {
	return t.owner != nil && !t.released && s.lives(t.owner.GetId())
}

func keyOf(ctx context.Context) (identity.Thread, error) { return identity.ThreadFromContext(ctx) }

func (s *Threads) find(ctx context.Context) (*thread, error) {
	key, err := keyOf(ctx)
	if err != nil {
		return nil, err
	}
	t := s.threads[key]
	if t == nil {
		return nil, errdefs.New(errdefs.ErrNotFound, threadDomain, "THREAD_NOT_FOUND", "the thread has no journal")
	}
	return t, nil
}

func (s *Threads) make(key identity.Thread) *thread {
	t := s.threads[key]
	if t == nil {
		t = &thread{seen: map[string]string{}, batches: map[string]batch{}, head: &threadv1.ThreadHead{
			Thread: &commonv1.Thread{Tenant: key.Tenant, Agent: key.Agent, User: key.User, Session: key.Session}, CreateTime: timestamppb.Now(),
		}}
		s.threads[key] = t
	}
	return t
}

func (s *Threads) headOf(t *thread) *threadv1.ThreadHead {
	h := proto.CloneOf(t.head)
	h.Seq, h.MailCount, h.Owner = int64(len(t.events)), int32(len(t.mail)), &threadv1.Owner{}
	if s.owned(t) {
		h.Owner = proto.CloneOf(t.owner)
	}
	return h
}

func (s *Threads) Heartbeat(_ context.Context, req *threadv1.HeartbeatRequest) (*threadv1.HeartbeatResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := req.GetOwner().GetId()
	if until, known := s.owners[id]; known && time.Now().After(until) {
		delete(s.owners, id)
		return nil, expired(id)
	}
	if req.GetLeaving() {
		delete(s.owners, id)
		s.wake()
		return &threadv1.HeartbeatResponse{}, nil
	}
	s.owners[id] = time.Now().Add(OwnerLife)
	return &threadv1.HeartbeatResponse{Life: durationpb.New(OwnerLife)}, nil
}

func expired(id string) error {
	return errdefs.New(errdefs.ErrFailedPrecondition, threadDomain, "OWNER_EXPIRED", "the owner has expired").With("owner", id)
}

func (s *Threads) Acquire(ctx context.Context, req *threadv1.AcquireRequest) (*threadv1.AcquireResponse, error) {
	key, err := keyOf(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lives(req.GetOwner().GetId()) {
		return nil, expired(req.GetOwner().GetId())
	}
	t := s.make(key)
	if s.owned(t) && t.owner.GetId() != req.GetOwner().GetId() && !req.GetFence() {
		return nil, errdefs.New(errdefs.ErrFailedPrecondition, threadDomain, "OWNED", "another owner holds the thread").With("owner", t.owner.GetId())
	}
	return s.acquire(t, req.GetOwner()), nil
}

func (s *Threads) acquire(t *thread, owner *threadv1.Owner) *threadv1.AcquireResponse {
	previous := t.owner
	if !s.owned(t) || t.owner.GetId() != owner.GetId() {
		t.head.Epoch++
		t.owner, t.released = proto.CloneOf(owner), false
	}
	return &threadv1.AcquireResponse{Head: s.headOf(t), PreviousOwner: previous}
}

func (s *Threads) Commit(ctx context.Context, req *threadv1.CommitRequest) (*threadv1.CommitResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	hash := hashOf(req)
	if b, ok := t.batches[req.GetBatchId()]; ok {
		if b.hash != hash {
			return nil, errdefs.New(errdefs.ErrAborted, threadDomain, "BATCH_MISMATCH", "the batch id was committed with other content")
		}
		return proto.CloneOf(b.resp), nil
	}
	if req.GetEpoch() != t.head.GetEpoch() || t.owner.GetId() != req.GetOwnerId() {
		return nil, errdefs.New(errdefs.ErrAborted, threadDomain, "FENCED", "another owner has the thread").With("epoch", fmt.Sprint(req.GetEpoch()))
	}
	if req.GetExpectedSeq() >= 0 && req.GetExpectedSeq() != int64(len(t.events)) {
		return nil, errdefs.New(errdefs.ErrAborted, threadDomain, "SEQUENCE_CONFLICT", "expected %d, the head is %d", req.GetExpectedSeq(), len(t.events))
	}
	for _, id := range req.GetConsumedMessageIds() {
		if !slices.ContainsFunc(t.mail, func(m *threadv1.Mail) bool { return m.GetMessageId() == id }) {
			return nil, errdefs.New(errdefs.ErrFailedPrecondition, threadDomain, "MESSAGE_CONSUMED", "the message is unknown or consumed").With("message_id", id)
		}
	}
	resp := s.apply(t, req)
	t.batches[req.GetBatchId()] = batch{hash, resp}
	s.commits++
	s.wake()
	return proto.CloneOf(resp), nil
}

func (s *Threads) apply(t *thread, req *threadv1.CommitRequest) *threadv1.CommitResponse {
	now := timestamppb.Now()
	t.mail = slices.DeleteFunc(t.mail, func(m *threadv1.Mail) bool { return slices.Contains(req.GetConsumedMessageIds(), m.GetMessageId()) })
	for _, ev := range req.GetEvents() {
		ev = proto.CloneOf(ev)
		ev.Seq, ev.Time = int64(len(t.events))+1, now
		t.events = append(t.events, ev)
		switch {
		case ev.GetType() != checkpointType:
		case t.redacted == t.head.GetEpoch(): // its writer may know what was removed
			bury(ev)
		default:
			t.head.CheckpointSeq = ev.GetSeq()
		}
	}
	for _, m := range req.GetMail() {
		s.put(t, m)
	}
	if mark := req.GetRunMark(); mark != nil {
		t.head.OpenRunId, t.head.TaskId = mark.GetRunId(), mark.GetTaskId()
		t.head.Suspended = mark.GetState() == threadv1.RunState_RUN_STATE_SUSPENDED
		switch mark.GetState() {
		case threadv1.RunState_RUN_STATE_COMPLETED, threadv1.RunState_RUN_STATE_FAILED, threadv1.RunState_RUN_STATE_CANCELLED:
			t.head.OpenRunId, t.head.TaskId = "", ""
		}
	}
	if req.GetTitle() != "" {
		t.head.Title = req.GetTitle()
	}
	if req.GetRelease() {
		t.released = true
	}
	t.head.UpdateTime = now
	return &threadv1.CommitResponse{Seq: int64(len(t.events)), CommitTime: now, Mail: due(t, 64)}
}

func due(t *thread, limit int) []*threadv1.Mail {
	var out []*threadv1.Mail
	for _, m := range t.mail {
		if at := m.GetNotBeforeTime(); (at == nil || !at.AsTime().After(time.Now())) && len(out) < limit {
			out = append(out, proto.CloneOf(m))
		}
	}
	return out
}

func (s *Threads) put(t *thread, m *threadv1.Mail) {
	m = proto.CloneOf(m)
	t.order++
	m.Order, m.PostTime = t.order, timestamppb.Now()
	t.seen[m.GetMessageId()] = mailHash(m)
	t.mail = append(t.mail, m)
}

func (s *Threads) Post(ctx context.Context, req *threadv1.PostRequest) (*threadv1.PostResponse, error) {
	key, err := keyOf(ctx)
	if err != nil {
		return nil, err
	}
	if th := req.GetThread(); th != nil {
		key = identity.Thread{Tenant: th.GetTenant(), Agent: th.GetAgent(), User: th.GetUser(), Session: th.GetSession()}
	}
	return s.PostTo(key, req.GetMail())
}

// PostTo puts a message into a mailbox.
func (s *Threads) PostTo(key identity.Thread, mail *threadv1.Mail) (*threadv1.PostResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.make(key)
	if hash, ok := t.seen[mail.GetMessageId()]; ok {
		if hash != mailHash(mail) {
			return nil, errdefs.New(errdefs.ErrAborted, threadDomain, "MESSAGE_MISMATCH", "the message id was posted with other content")
		}
		return &threadv1.PostResponse{Head: s.headOf(t), Duplicate: true}, nil
	}
	s.put(t, mail)
	s.wake()
	return &threadv1.PostResponse{Head: s.headOf(t)}, nil
}

func (s *Threads) Release(ctx context.Context, req *threadv1.ReleaseRequest) (*threadv1.ReleaseResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	if t.owner.GetId() == req.GetOwnerId() && t.head.GetEpoch() == req.GetEpoch() {
		t.released = true
		s.wake()
	}
	return &threadv1.ReleaseResponse{}, nil
}

func (s *Threads) ClaimExpired(ctx context.Context, req *threadv1.ClaimExpiredRequest) (*threadv1.ClaimExpiredResponse, error) {
	deadline := time.Now().Add(req.GetMaxWait().AsDuration())
	for {
		s.mu.Lock()
		if !s.lives(req.GetOwner().GetId()) {
			s.mu.Unlock()
			return nil, expired(req.GetOwner().GetId())
		}
		resp := &threadv1.ClaimExpiredResponse{}
		for _, t := range s.threads {
			open := t.head.GetOpenRunId() != "" && !t.head.GetSuspended()
			mail := slices.ContainsFunc(due(t, 1<<30), func(m *threadv1.Mail) bool { return m.GetWake() })
			if (open || mail) && t.head.GetTaskId() == "" && !s.owned(t) && len(resp.Claims) < int(max(req.GetMaxThreads(), 1)) {
				resp.Claims = append(resp.Claims, s.acquire(t, req.GetOwner()))
			}
		}
		changed := s.changed
		s.mu.Unlock()
		if len(resp.Claims) > 0 || !time.Now().Before(deadline) {
			return resp, nil
		}
		// Owners die and timers come due without a change of the store.
		timer := time.NewTimer(min(time.Until(deadline), 50*time.Millisecond))
		select {
		case <-changed:
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return nil, ctx.Err()
		}
		timer.Stop()
	}
}

func (s *Threads) Head(ctx context.Context, _ *threadv1.HeadRequest) (*threadv1.HeadResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	return &threadv1.HeadResponse{Head: s.headOf(t)}, nil
}

func (s *Threads) List(ctx context.Context, req *threadv1.ListRequest) (*threadv1.ListResponse, error) {
	id, _ := identity.FromContext(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	resp := &threadv1.ListResponse{}
	for key, t := range s.threads {
		if key.Tenant == id.Tenant && key.Agent == id.Agent && key.User == id.User && (id.User != "" || key.Session == id.Session) {
			resp.Heads = append(resp.Heads, s.headOf(t))
		}
	}
	slices.SortFunc(resp.Heads, func(a, b *threadv1.ThreadHead) int {
		return strings.Compare(a.GetThread().GetSession(), b.GetThread().GetSession())
	})
	return resp, nil
}

func (s *Threads) ListMail(ctx context.Context, req *threadv1.ListMailRequest) (*threadv1.ListMailResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	limit := int(req.GetLimit())
	if limit == 0 {
		limit = 64
	}
	return &threadv1.ListMailResponse{Mail: due(t, limit)}, nil
}

func (s *Threads) PutBlob(_ context.Context, req *threadv1.PutBlobRequest) (*threadv1.PutBlobResponse, error) {
	sum := sha256.Sum256(req.GetData())
	s.mu.Lock()
	defer s.mu.Unlock()
	id := hex.EncodeToString(sum[:])
	s.blobs[id] = bytes.Clone(req.GetData())
	return &threadv1.PutBlobResponse{Sha256: id}, nil
}

func (s *Threads) GetBlob(_ context.Context, req *threadv1.GetBlobRequest) (*threadv1.GetBlobResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	data, ok := s.blobs[req.GetSha256()]
	if !ok {
		return nil, errdefs.New(errdefs.ErrNotFound, threadDomain, "BLOB_NOT_FOUND", "no such blob")
	}
	return &threadv1.GetBlobResponse{Data: data}, nil
}

func (s *Threads) Delete(ctx context.Context, _ *threadv1.DeleteRequest) (*threadv1.DeleteResponse, error) {
	key, err := keyOf(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.threads[key]
	delete(s.threads, key)
	s.wake()
	return &threadv1.DeleteResponse{Deleted: ok}, nil
}

func (s *Threads) Fork(ctx context.Context, req *threadv1.ForkRequest) (*threadv1.ForkResponse, error) {
	key, err := keyOf(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	from, err := s.find(ctx)
	if err != nil {
		return nil, err
	}
	to := key
	to.Session = req.GetToSession()
	if s.threads[to] != nil {
		return nil, errdefs.New(errdefs.ErrAlreadyExists, threadDomain, "THREAD_EXISTS", "the target has a journal")
	}
	at := req.GetAtSeq()
	if at == 0 {
		at = int64(len(from.events))
	}
	t := s.make(to)
	for _, ev := range from.events[:at] {
		t.events = append(t.events, proto.CloneOf(ev))
	}
	t.head.CheckpointSeq = lastCheckpoint(t.events)
	t.head.ForkedFrom, t.head.ForkedAtSeq = from.head.GetThread(), at
	return &threadv1.ForkResponse{Head: s.headOf(t)}, nil
}

func hashOf(m proto.Message) string {
	raw, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

func mailHash(m *threadv1.Mail) string {
	m = proto.CloneOf(m)
	m.Order, m.PostTime = 0, nil
	return hashOf(m)
}
