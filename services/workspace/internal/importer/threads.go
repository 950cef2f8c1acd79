package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

const (
	logSuffix  = ".log.jsonl"
	viewSuffix = ".jsonl"
	indexName  = "sessions.json"
)

// Encoder makes the events of a thread. Payloads are in the encoding of the journal's users. Equal calls give equal events.
type Encoder interface {
	// Started opens a run.
	Started(t identity.Thread, run string) (journal.Event, error)
	// Message adds a message.
	Message(m Message) (journal.Event, error)
	// Ended closes it.
	Ended() (journal.Event, error)
	// Title is the title that a message gives a thread; "" for none.
	Title(m Message) string
}

// threads takes over the logs of an owner's sessions. Where a session has no full log, the compacted one is taken.
func (w *work) threads(ctx context.Context, o *owner) error {
	if o.agent == "" {
		return nil
	}
	dir := path.Join(agentsDir, o.agent, "sessions")
	switch info, err := o.root.Lstat(dir); {
	case err != nil:
		return nil
	case !info.IsDir():
		w.report.leave(o.shown(dir), "no directory of logs")
		return nil
	}
	entries, err := w.entriesOf(o, dir)
	if err != nil {
		return err
	}
	logs, others := map[string]string{}, int64(0)
	for _, e := range entries {
		name := e.Name()
		session, full := strings.CutSuffix(name, logSuffix)
		view, compacted := strings.CutSuffix(name, viewSuffix)
		switch {
		case name == indexName: // the list of threads takes its place
		case !e.Type().IsRegular():
			w.report.leave(o.shown(path.Join(dir, name)), "no regular file")
		case full:
			logs[session] = name
		case compacted && logs[view] == "" && !slices.ContainsFunc(entries, isName(view+logSuffix)):
			logs[view] = name
		case compacted:
			others++
		default:
			w.report.leave(o.shown(path.Join(dir, name)), "no log of a session")
		}
	}
	if others > 0 {
		w.report.leave(o.shown(dir), fmt.Sprintf("%d compacted logs (*%s): the full logs beside them hold everything", others, viewSuffix))
	}
	for _, session := range slices.Sorted(maps.Keys(logs)) {
		if err := w.goOn(ctx); err != nil {
			return err
		}
		from := path.Join(dir, logs[session])
		reason, err := w.session(ctx, o, session, from)
		if err != nil && tolerable(err) {
			reason, err = why(err), nil
		}
		if reason != "" {
			w.report.leave(o.shown(from), reason)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func isName(name string) func(os.DirEntry) bool {
	return func(e os.DirEntry) bool { return e.Name() == name && e.Type().IsRegular() }
}

// conversation is the log of a session that becomes a thread.
type conversation struct {
	thread identity.Thread
	file   *os.File
	sum    string
	events int64
}

// session takes one log over. A reason says why it was left out.
func (w *work) session(ctx context.Context, o *owner, session, from string) (reason string, err error) {
	if err := identity.ValidateID("session", session); err != nil {
		return why(err), nil
	}
	f, _, err := open(o.root, from)
	if err != nil {
		return "it can't be read", nil
	}
	defer f.Close()
	c := &conversation{thread: identity.Thread{Tenant: w.req.Tenant, Agent: w.req.Agent, User: o.user, Session: session}, file: f}
	if c.sum, _, err = sumOf(ctx, f); err != nil {
		return "it can't be read", ctx.Err()
	}
	skipped, err := w.play(ctx, c, func(journal.Event, string, bool) error { c.events++; return nil })
	if err != nil {
		return "", err
	}
	if c.events == 0 {
		return "it has no message", nil
	}
	done, reason, err := w.isThere(ctx, c)
	if done || reason != "" || err != nil {
		return reason, err
	}
	for _, what := range slices.Sorted(maps.Keys(skipped)) {
		w.report.leave(o.shown(from), fmt.Sprintf("lines %s: %d", what, skipped[what]))
	}
	if !w.req.DryRun {
		if err := w.commitAlive(ctx, c); err != nil {
			return "", err
		}
	}
	w.report.Threads++
	return "", nil
}

// isThere says whether the thread was taken over before, or why it can't be.
func (w *work) isThere(ctx context.Context, c *conversation) (done bool, reason string, err error) {
	head, err := w.Journal.Head(ctx, c.thread)
	if errors.Is(err, errdefs.ErrNotFound) || err == nil && head.Seq == 0 {
		return false, "", nil
	}
	if err != nil {
		return false, "", err
	}
	first, err := w.event(ctx, c.thread, 1)
	switch {
	case err != nil:
		return false, "", err
	case !strings.HasPrefix(first.ID, "import/"):
		return false, "the session has a conversation of its own already", nil
	case first.ID != c.id(0):
		return false, "the log has changed since it was imported; what was added is not taken over", nil
	case head.Seq < c.events:
		return false, "", nil // an import was interrupted
	}
	last, err := w.event(ctx, c.thread, c.events)
	if err == nil && last.ID != c.id(c.events-1) {
		return false, "the session was continued before its import was complete", nil
	}
	w.report.UnchangedThreads++
	return true, "", err
}

func (w *work) event(ctx context.Context, t identity.Thread, seq int64) (journal.Event, error) {
	page, err := w.Journal.Read(ctx, t, journal.ReadRequest{After: seq - 1, Limit: 1})
	if err != nil || len(page.Events) == 0 {
		return journal.Event{}, err
	}
	return page.Events[0], nil
}

// id is the id of the event at an index, from 0. It follows from the log.
func (c *conversation) id(index int64) string { return fmt.Sprintf("import/%s/%d", c.sum[:32], index) }

// run is the id of the n-th run.
func (c *conversation) run(n int) string { return fmt.Sprintf("import-%s-%d", c.sum[:16], n) }
