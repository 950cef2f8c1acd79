package importer

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// oldState is where AgentScope keeps up to when ledgers were consolidated: one instant as text.
	oldState = "memory/.consolidation_state"
	// newState is where the memory service keeps how far each ledger was.
	newState = "memory/.consolidation.json"
	// maxState bounds what is read of it.
	maxState = 4 << 10
	// maxLedger is how much of a ledger the memory service reads; a mark counts within that.
	maxLedger = 16 << 20
)

var ledgerName = regexp.MustCompile(`^memory/\d{4}-\d{2}-\d{2}\.md$`)

// state is the watermark as the memory service reads it.
type state struct {
	Version int             `json:"version"`
	Ledgers map[string]mark `json:"ledgers"`
	RunTime time.Time       `json:"run_time"`
}

type mark struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// watermark turns the old watermark into the new one: a ledger that was not changed after the instant was consolidated as a whole. A bucket that has a watermark keeps it.
func (w *work) watermark(ctx context.Context, o *owner) error {
	if o.prefix == "" && o.inPlace && o.target.Mounted {
		return nil // the top itself is the bucket; what its engineers keep there is not written beside
	}
	for _, from := range o.states() {
		at, found, reason := readState(o, from)
		if reason != "" {
			w.report.leave(o.shown(from), reason)
		}
		if !found {
			continue
		}
		reason, err := w.mark(ctx, o, at)
		if err != nil && tolerable(err) {
			reason, err = why(err), nil
		}
		if reason != "" {
			w.report.leave(o.shown(from), reason)
		}
		return err
	}
	return nil
}

func (o *owner) states() []string {
	out := []string{oldState}
	if o.agent != "" {
		out = append(out, path.Join(agentsDir, o.agent, oldState))
	}
	return out
}

// readState reads the instant.
func readState(o *owner, from string) (at time.Time, found bool, reason string) {
	if info, err := o.root.Lstat(from); err != nil || !info.Mode().IsRegular() {
		return at, false, ""
	}
	f, _, err := open(o.root, from)
	if err != nil {
		return at, false, "it can't be read"
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxState))
	if err != nil {
		return at, false, "it can't be read"
	}
	at, err = time.Parse(time.RFC3339Nano, strings.TrimSpace(string(text)))
	if err != nil {
		return at, false, "it holds no instant: every ledger counts as new"
	}
	return at, true, ""
}

// mark writes the watermark.
func (w *work) mark(ctx context.Context, o *owner, at time.Time) (reason string, err error) {
	s := state{Version: 1, Ledgers: map[string]mark{}, RunTime: at.UTC()}
	for name, l := range o.ledgers {
		if ledgerName.MatchString(name) && !l.changed.After(at) && l.size <= maxLedger {
			s.Ledgers[name] = mark{l.size, l.sum}
		}
	}
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return "", err
	}
	data = append(data, '\n')
	p := fsops.PathOf(newState)
	own, err := o.target.View.Only(files.LayerBucket).Stat(ctx, p)
	if err == nil {
		if sum, _, err := sumOf(ctx, bytes.NewReader(data)); err == nil && sum == own.SHA256 {
			w.report.UnchangedFiles++
			return "", nil
		}
		return "the bucket has a watermark of its own already", nil
	}
	if w.req.DryRun {
		w.report.Files++
		return "", nil
	}
	staged, err := w.Store.Stage(ctx, bytes.NewReader(data), 0)
	if err != nil {
		return "", err
	}
	return "", w.put(ctx, o, p, staged, ledger{})
}
