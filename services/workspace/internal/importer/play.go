package importer

import (
	"context"
	"io"

	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

const (
	// maxRun and maxRunBytes bound the events of one run, so that a run is within one batch.
	maxRun      = 100
	maxRunBytes = 1 << 20
)

// player makes the events of a conversation. What a user says and what comes of it is a run; a very long one is cut into several. A run is never open at the end of
// a batch, and calls are never without their results: so a conversation whose import was interrupted can be read, and continued, like any other.
type player struct {
	w    *work
	c    *conversation
	emit func(e journal.Event, title string, rest bool) error

	index  int64
	runs   int
	open   bool
	events int
	bytes  int
}

// play passes the events of a conversation on, from the beginning of the log, with the titles that they give. rest says that no run is open after the event.
func (w *work) play(ctx context.Context, c *conversation, emit func(e journal.Event, title string, rest bool) error) (skipped map[string]int, err error) {
	if _, err := c.file.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	p := &player{w: w, c: c, emit: emit}
	if skipped, err = readLog(ctx, c.file, p.message); err != nil {
		return nil, err
	}
	return skipped, p.end()
}

func (p *player) message(m Message) error {
	full := p.events >= maxRun || p.bytes >= maxRunBytes
	if m.Role == RoleUser || full && m.Role != RoleTool {
		if err := p.end(); err != nil {
			return err
		}
	}
	if !p.open {
		p.open, p.events, p.bytes = true, 0, 0
		e, err := p.w.Encode.Started(p.c.thread, p.c.run(p.runs))
		if err := p.add(e, err, "", false); err != nil {
			return err
		}
	}
	e, err := p.w.Encode.Message(m)
	return p.add(e, err, p.w.Encode.Title(m), false)
}

// end closes the open run.
func (p *player) end() error {
	if !p.open {
		return nil
	}
	p.open = false
	e, err := p.w.Encode.Ended()
	err = p.add(e, err, "", true)
	p.runs++
	return err
}

func (p *player) add(e journal.Event, err error, title string, rest bool) error {
	if err != nil {
		return err
	}
	e.ID, e.Schema, e.RunID = p.c.id(p.index), 1, p.c.run(p.runs)
	p.index++
	p.events++
	p.bytes += len(e.Payload)
	return p.emit(e, title, rest)
}
