package importer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// words encodes messages as text.
type words struct{}

func (words) Started(identity.Thread, string) (journal.Event, error) {
	return journal.Event{Type: "run/started"}, nil
}

func (words) Message(m Message) (journal.Event, error) {
	return journal.Event{Type: "message/appended", Payload: []byte(brief(m))}, nil
}

func (words) Ended() (journal.Event, error) { return journal.Event{Type: "run/ended"}, nil }

func (words) Title(m Message) string { return cut(m.Text, 80) }

// fragile is a journal whose commits fail after some that went well.
type fragile struct {
	journal.Store
	left int
}

func (f *fragile) Commit(ctx context.Context, t identity.Thread, b journal.Batch) (journal.Committed, error) {
	if f.left--; f.left < 0 {
		return journal.Committed{}, errdefs.New(errdefs.ErrUnavailable, journal.Domain, "", "the store is gone")
	}
	return f.Store.Commit(ctx, t, b)
}

func newImporter(t *testing.T) (*Importer, string) {
	t.Helper()
	dir := t.TempDir()
	store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(dir, "files.db")}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	threads, err := journalsqlite.Open(t.Context(), journalsqlite.Config{Path: filepath.Join(dir, "journal.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(store.Close(), threads.Close()); err != nil {
			t.Error(err)
		}
	})
	return &Importer{
		Dirs: []string{dir}, Store: store, Journal: threads, Encode: words{}, MaxFileBytes: 1 << 20,
		Open: func(_ context.Context, b identity.Bucket) (Target, error) {
			return Target{View: files.NewView(store, files.BucketSpace(b), nil, files.Limits{}, time.Now), Taken: func(string) bool { return false }}, nil
		},
	}, filepath.Join(dir, "old")
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

// An import that breaks off in the middle of a conversation is gone on with by the next one: the thread has each message once, in order.
func TestAnInterruptedThreadIsGoneOnWith(t *testing.T) {
	i, dir := newImporter(t)
	const messages = 3*journal.MaxBatchEvents + 7
	var log strings.Builder
	for n := range messages {
		fmt.Fprintf(&log, `{"type":"message","id":"m%d","role":"USER","content":"message %d"}`+"\n", n, n)
	}
	write(t, dir, "ana/agents/coder/sessions/s.log.jsonl", log.String())
	req := Request{Directory: dir, Tenant: "default", Agent: "coder"}
	thread := identity.Thread{Tenant: "default", Agent: "coder", User: "ana", Session: "s"}

	whole := i.Journal
	i.Journal = &fragile{Store: whole, left: 2}
	if _, err := i.Import(t.Context(), req); !errors.Is(err, errdefs.ErrUnavailable) {
		t.Fatalf("an import on a broken journal: %v", err)
	}
	if head, err := whole.Head(t.Context(), thread); err != nil || head.Seq == 0 || head.Seq >= messages || head.Owner.ID != "" || head.Run.ID != "" {
		t.Fatalf("after the break: %+v, %v", head, err)
	} else if page, err := whole.Read(t.Context(), thread, journal.ReadRequest{After: head.Seq - 1}); err != nil || page.Events[0].Type != "run/ended" {
		t.Fatalf("the break left a run open: %+v, %v", page.Events, err)
	}
	i.Journal = whole
	for n, want := range []Report{{Threads: 1}, {UnchangedThreads: 1}} {
		got, err := i.Import(t.Context(), req)
		if err != nil || got.Threads != want.Threads || got.UnchangedThreads != want.UnchangedThreads || got.LeftOutCount != 0 {
			t.Fatalf("import %d: %+v, %v", n+2, got, err)
		}
	}
	next := 0
	_, _, err := journal.Scan(t.Context(), whole, thread, 0, 0, nil, func(e journal.Event) error {
		if e.Type == "message/appended" {
			if want := fmt.Sprintf("user message %d", next); string(e.Payload) != want {
				t.Fatalf("event %d is %q, want %q", e.Seq, e.Payload, want)
			}
			next++
		}
		return nil
	})
	if err != nil || next != messages {
		t.Errorf("%d messages, want %d: %v", next, messages, err)
	}
}

// mortal is a journal that judges every owner expired after a number of commits, until it was done so often.
type mortal struct {
	journal.Store
	every, times, commits int
	owners                map[string]bool
}

func (m *mortal) Commit(ctx context.Context, t identity.Thread, b journal.Batch) (journal.Committed, error) {
	m.owners[b.Owner] = true
	if m.commits++; m.commits%m.every == 0 && m.times > 0 {
		m.times--
		return journal.Committed{}, journal.OwnerExpired(b.Owner)
	}
	return m.Store.Commit(ctx, t, b)
}

// On a machine that is very busy the import may be judged expired, which ends neither it nor what it writes afterwards.
func TestAnOwnerThatExpiresBeginsAnew(t *testing.T) {
	i, dir := newImporter(t)
	for n := range 5 {
		write(t, dir, fmt.Sprintf("ana/agents/coder/sessions/s%d.log.jsonl", n), `{"role":"USER","content":"hi"}`)
	}
	m := &mortal{Store: i.Journal, every: 2, times: 3, owners: map[string]bool{}}
	i.Journal = m
	got, err := i.Import(t.Context(), Request{Directory: dir, Tenant: "default", Agent: "coder"})
	if err != nil || got.Threads != 5 || got.LeftOutCount != 0 || len(m.owners) != 4 {
		t.Errorf("%+v, %d owners, %v", got, len(m.owners), err)
	}
	// One that expires again and again is left out alone.
	write(t, dir, "ana/agents/coder/sessions/t.log.jsonl", `{"role":"USER","content":"hi"}`)
	write(t, dir, "ana/agents/coder/sessions/u.log.jsonl", `{"role":"USER","content":"hi"}`)
	m.every, m.times = 1, maxLives
	got, err = i.Import(t.Context(), Request{Directory: dir, Tenant: "default", Agent: "coder"})
	if err != nil || got.Threads != 1 || got.UnchangedThreads != 5 || got.LeftOutCount != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// What somebody else wrote into the session is neither changed nor continued.
func TestAThreadOfItsOwnIsLeftAlone(t *testing.T) {
	i, dir := newImporter(t)
	write(t, dir, "ana/agents/coder/sessions/s.log.jsonl", `{"role":"USER","content":"old"}`)
	write(t, dir, "ana/agents/coder/sessions/busy.log.jsonl", `{"role":"USER","content":"old"}`)
	thread := identity.Thread{Tenant: "default", Agent: "coder", User: "ana", Session: "s"}
	owner := journal.Owner{ID: "replica/boot"}
	if _, err := i.Journal.Heartbeat(t.Context(), owner, false); err != nil {
		t.Fatal(err)
	}
	claim, err := i.Journal.Acquire(t.Context(), thread, owner, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Journal.Commit(t.Context(), thread, journal.Batch{Owner: owner.ID, Epoch: claim.Head.Epoch, ID: "b", Events: []journal.Event{{Schema: 1, ID: "e", Type: "run/started"}}}); err != nil {
		t.Fatal(err)
	}
	thread.Session = "busy"
	if _, err := i.Journal.Acquire(t.Context(), thread, owner, false); err != nil {
		t.Fatal(err)
	}
	got, err := i.Import(t.Context(), Request{Directory: dir, Tenant: "default", Agent: "coder"})
	if err != nil || got.Threads != 0 || got.LeftOutCount != 2 || !strings.Contains(strings.Join(got.LeftOut, "\n"), "a conversation of its own") || !strings.Contains(strings.Join(got.LeftOut, "\n"), "another live owner") {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAnImportEndsBeforeItsTime(t *testing.T) {
	i, dir := newImporter(t)
	write(t, dir, "ana/MEMORY.md", "x")
	root, err := i.openRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w := &work{Importer: i, req: Request{Directory: dir, Tenant: "default", Agent: "coder"}, root: root, until: time.Now().Add(-time.Second)}
	if err := w.run(t.Context()); !errors.Is(err, errTime) || w.report.Files != 0 {
		t.Errorf("without time: %+v, %v", w.report, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if left := time.Until(until(ctx)); left > time.Hour-maxReserve || left < time.Hour-2*maxReserve {
		t.Errorf("an hour leaves %s", left)
	}
	if !until(t.Context()).IsZero() {
		t.Error("no deadline is a deadline")
	}
}

// A user's directory that has become a link by the time it is opened is not taken for the user's.
func TestLinksInPlaceOfDirectoriesAreNotFollowed(t *testing.T) {
	i, dir := newImporter(t)
	write(t, dir, "ben/MEMORY.md", "ben's")
	write(t, dir, "ben/agents/coder/sessions/s.log.jsonl", `{"role":"USER","content":"ben's"}`)
	write(t, dir, "cy/MEMORY.md", "cy's")
	err := errors.Join(os.Symlink("ben", filepath.Join(dir, "ana")), os.Symlink("../ben/agents", filepath.Join(dir, "cy", "agents")), os.Symlink("../ben", filepath.Join(dir, "cy", "memory")))
	if err != nil {
		t.Fatal(err)
	}
	root, err := i.openRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	w := &work{Importer: i, req: Request{Directory: dir, Tenant: "default", Agent: "coder"}, root: root}
	if _, err := w.open(t.Context(), identity.Bucket{Tenant: "default", Scope: identity.ScopeUser, Agent: "coder", User: "ana"}, "ana"); !errors.Is(err, errLink) {
		t.Errorf("a link was opened: %v", err)
	}
	got, err := i.Import(t.Context(), w.req)
	if err != nil || got.Files != 2 || got.Threads != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestFilesAreBounded(t *testing.T) {
	i, dir := newImporter(t)
	write(t, dir, "ana/MEMORY.md", strings.Repeat("x", 1<<20+1))
	write(t, dir, "ana/small.md", "x")
	got, err := i.Import(t.Context(), Request{Directory: dir, Tenant: "default", Agent: "coder"})
	if err != nil || got.Files != 1 || got.LeftOutCount != 1 || !strings.HasPrefix(got.LeftOut[0], "ana/MEMORY.md: ") {
		t.Errorf("%+v, %v", got, err)
	}
}
