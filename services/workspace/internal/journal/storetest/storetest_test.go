package storetest_test

import (
	"context"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal/storetest"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// broken is a right store with something wrong in front of it. What a field leaves nil is right.
type broken struct {
	journal.Store
	thread func(identity.Thread) identity.Thread
	tenant func(string) string
	commit func(context.Context, journal.Store, identity.Thread, journal.Batch) (journal.Committed, error)
	post   func(context.Context, journal.Store, identity.Thread, journal.Mail) (journal.Head, bool, error)
	redact func(context.Context, journal.Store, identity.Thread, []int64) (journal.Redacted, error)
}

func (b broken) key(t identity.Thread) identity.Thread {
	if b.thread == nil {
		return t
	}
	return b.thread(t)
}

func (b broken) user(u journal.User) journal.User {
	return journal.UserOf(b.key(identity.Thread{Tenant: u.Tenant, Agent: u.Agent, User: u.User}))
}

func (b broken) Acquire(ctx context.Context, t identity.Thread, o journal.Owner, fence bool) (journal.Claim, error) {
	return b.Store.Acquire(ctx, b.key(t), o, fence)
}

func (b broken) Release(ctx context.Context, t identity.Thread, o string, epoch int64) error {
	return b.Store.Release(ctx, b.key(t), o, epoch)
}

func (b broken) Commit(ctx context.Context, t identity.Thread, batch journal.Batch) (journal.Committed, error) {
	if b.commit != nil {
		return b.commit(ctx, b.Store, b.key(t), batch)
	}
	return b.Store.Commit(ctx, b.key(t), batch)
}

func (b broken) Post(ctx context.Context, t identity.Thread, m journal.Mail) (journal.Head, bool, error) {
	if b.post != nil {
		return b.post(ctx, b.Store, b.key(t), m)
	}
	return b.Store.Post(ctx, b.key(t), m)
}

func (b broken) ListMail(ctx context.Context, t identity.Thread, limit int, future bool) ([]journal.Mail, error) {
	return b.Store.ListMail(ctx, b.key(t), limit, future)
}

func (b broken) Head(ctx context.Context, t identity.Thread) (journal.Head, error) {
	return b.Store.Head(ctx, b.key(t))
}

func (b broken) Read(ctx context.Context, t identity.Thread, r journal.ReadRequest) (journal.Page, error) {
	return b.Store.Read(ctx, b.key(t), r)
}

func (b broken) List(ctx context.Context, u journal.User, size int, token string) ([]journal.Head, string, error) {
	return b.Store.List(ctx, b.user(u), size, token)
}

func (b broken) PutBlob(ctx context.Context, tenant string, data []byte) (journal.Sum, error) {
	if b.tenant != nil {
		tenant = b.tenant(tenant)
	}
	return b.Store.PutBlob(ctx, tenant, data)
}

func (b broken) GetBlob(ctx context.Context, tenant string, sum journal.Sum) ([]byte, error) {
	if b.tenant != nil {
		tenant = b.tenant(tenant)
	}
	return b.Store.GetBlob(ctx, tenant, sum)
}

func (b broken) Redact(ctx context.Context, t identity.Thread, seqs []int64, reason string) (journal.Redacted, error) {
	if b.redact != nil {
		return b.redact(ctx, b.Store, t, seqs)
	}
	return b.Store.Redact(ctx, t, seqs, reason)
}

func TestTheSuiteNotices(t *testing.T) {
	var calls atomic.Int64
	var wait sync.WaitGroup
	third := func() bool { return calls.Add(1)%3 == 0 }
	for name, fault := range map[string]broken{
		"ignores the epoch": {commit: func(ctx context.Context, s journal.Store, t identity.Thread, b journal.Batch) (journal.Committed, error) {
			if h, err := s.Head(ctx, t); err == nil && h.Owner.ID != "" {
				b.Epoch, b.Owner = h.Epoch, h.Owner.ID
			}
			return s.Commit(ctx, t, b)
		}},
		"ignores the expected sequence": {commit: func(ctx context.Context, s journal.Store, t identity.Thread, b journal.Batch) (journal.Committed, error) {
			b.Expected = -1
			return s.Commit(ctx, t, b)
		}},
		"drops a message that it takes": {post: func(ctx context.Context, s journal.Store, t identity.Thread, m journal.Mail) (journal.Head, bool, error) {
			if h, err := s.Head(ctx, t); err == nil && third() {
				return h, false, nil
			}
			return s.Post(ctx, t, m)
		}},
		"forgets to consume": {commit: func(ctx context.Context, s journal.Store, t identity.Thread, b journal.Batch) (journal.Committed, error) {
			b.Consume = nil
			return s.Commit(ctx, t, b)
		}},
		"consumes without the events": {commit: func(ctx context.Context, s journal.Store, t identity.Thread, b journal.Batch) (journal.Committed, error) {
			if len(b.Consume) > 0 {
				b.Events = nil
			}
			return s.Commit(ctx, t, b)
		}},
		"loses a commit": {commit: func(ctx context.Context, s journal.Store, t identity.Thread, b journal.Batch) (journal.Committed, error) {
			if h, err := s.Head(ctx, t); err == nil && third() {
				return journal.Committed{Seq: h.Seq + int64(len(b.Events)), Time: h.Updated}, nil
			}
			return s.Commit(ctx, t, b)
		}},
		"commits a repeat again": {commit: func(ctx context.Context, s journal.Store, t identity.Thread, b journal.Batch) (journal.Committed, error) {
			b.ID += time.Now().String()
			return s.Commit(ctx, t, b)
		}},
		"never releases": {commit: func(ctx context.Context, s journal.Store, t identity.Thread, b journal.Batch) (journal.Committed, error) {
			b.Release = false
			return s.Commit(ctx, t, b)
		}},
		"ignores the tenant": {thread: func(t identity.Thread) identity.Thread { t.Tenant = "t"; return t }},
		"ignores the agent":  {thread: func(t identity.Thread) identity.Thread { t.Agent = "a"; return t }},
		"ignores the user":   {thread: func(t identity.Thread) identity.Thread { t.User = "u"; return t }},
		"shares blobs":       {tenant: func(string) string { return "all" }},
		"redacts nothing": {redact: func(_ context.Context, _ journal.Store, _ identity.Thread, seqs []int64) (journal.Redacted, error) {
			return journal.Redacted{Events: len(seqs)}, nil
		}},
	} {
		// All at once, for they mostly wait for what a broken store never does.
		wait.Go(func() {
			failures := testkit.Failures(func(t testkit.T) {
				storetest.Run(t, func(tb testing.TB, now func() time.Time) journal.Store {
					s, err := journalsqlite.Open(tb.Context(), journalsqlite.Config{Path: filepath.Join(tb.TempDir(), "j.db"), Now: now})
					if err != nil {
						tb.Fatal(err)
					}
					tb.Cleanup(func() { _ = s.Close() })
					fault.Store = s
					return fault
				})
			})
			if len(failures) == 0 {
				t.Errorf("the suite passes a store that %s", name)
			}
			t.Logf("%s: %d failures, the first: %.200s", name, len(failures), append(failures, "")[0])
		})
	}
	wait.Wait()
}
