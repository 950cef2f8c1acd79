package memory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/memory/internal/diff"
)

const (
	// maxAttempts bounds how often a merge is made again because MEMORY.md had changed.
	maxAttempts = 8
	// maxRounds bounds how many portions of the ledgers one call consolidates.
	maxRounds    = 64
	maxDiffBytes = 64 << 10
)

// ConsolidateRequest says how to consolidate.
type ConsolidateRequest struct {
	Method Method
	DryRun bool
	// Budget of MEMORY.md in tokens; 0: the setting.
	Budget int
	// Full reads ledgers again from their start.
	Full bool
}

// ConsolidateResult is what was done.
type ConsolidateResult struct {
	Changed                                                   bool
	Method                                                    Method
	Read, Added, Superseded, Duplicates, Overflowed, Remerges int
	Diff                                                      string
	Tokens                                                    int
	Previous                                                  string
	Cursor                                                    string
	OverBudget                                                bool
}

// Consolidate merges what ledgers hold beyond the watermark into MEMORY.md.
func (s *Service) Consolidate(ctx context.Context, req ConsolidateRequest) (r ConsolidateResult, err error) {
	c, err := callOf(ctx)
	if err != nil {
		return r, err
	}
	if r.Method, err = s.method(req.Method); err != nil {
		return r, err
	}
	if req.Budget <= 0 {
		req.Budget = s.opts.BudgetTokens
	}
	unlock, err := s.consolidating.lock(ctx, c.bucket.Key())
	if err != nil {
		return r, err
	}
	defer unlock()
	err = s.consolidate(ctx, req, &r)
	s.status.set(c.memoryIndex(), func(st *keyStatus) { st.consolidationErr = errorText(err) })
	return r, err
}

// consolidate works through the ledgers in portions, each a whole merge of its own.
func (s *Service) consolidate(ctx context.Context, req ConsolidateRequest, r *ConsolidateResult) error {
	var before string
	st, err := s.readState(ctx)
	if err != nil {
		return err
	}
	if req.Full {
		st.Ledgers = map[string]mark{}
	}
	for round := range maxRounds {
		entries, next, more, err := s.pending(ctx, st)
		if err != nil {
			return err
		}
		doc, err := s.readMemory(ctx)
		if err != nil {
			return err
		}
		if round == 0 {
			before = doc.content
		}
		over := doc.cur.tokens() > req.Budget
		if len(entries) == 0 && !over {
			r.Tokens = doc.cur.tokens()
			break
		}
		p, err := s.plan(ctx, r.Method, doc, entries)
		if err != nil {
			return err
		}
		if err := s.settle(ctx, req, r, p, doc, &st, next); err != nil {
			return err
		}
		r.Read += len(entries)
		if !more || req.DryRun {
			break
		}
	}
	after, err := s.readMemory(ctx)
	if err != nil {
		return err
	}
	if !req.DryRun {
		r.Diff, r.Changed = diff.Unified(memoryFile, before, after.content, maxDiffBytes), before != after.content
	}
	return nil
}

// plan decides what a merge of the entries means.
func (s *Service) plan(ctx context.Context, method Method, doc memoryDoc, entries []ledgerEntry) (plan, error) {
	if method == MethodRules || len(entries) == 0 {
		return planByRules(doc.cur, entries), nil
	}
	return s.planByModel(ctx, doc, entries)
}

// settle applies a plan to MEMORY.md and writes it, on the state of the file that is there then.
func (s *Service) settle(ctx context.Context, req ConsolidateRequest, r *ConsolidateResult, p plan, doc memoryDoc, st *state, next state) error {
	now := next.RunTime
	for attempt := range maxAttempts {
		if attempt > 0 {
			r.Remerges++
			var err error
			if doc, err = s.readMemory(ctx); err != nil {
				return err
			}
		}
		n, out := p.apply(doc.cur, now)
		dropped, fits := doc.cur.fit(req.Budget, now)
		content := doc.cur.String()
		r.OverBudget, r.Tokens = !fits, doc.cur.tokens()
		if req.DryRun {
			r.add(n, len(dropped))
			r.Diff, r.Changed = diff.Unified(memoryFile, doc.content, content, maxDiffBytes), content != doc.content
			return nil
		}
		if content == doc.content && len(out) == 0 && maps.Equal(next.Ledgers, st.Ledgers) {
			return nil
		}
		changes, version, err := s.changes(ctx, doc, content, append(out, dropped...), next)
		if err != nil {
			return err
		}
		cursor, err := s.files.Write(ctx, effect.Derive(doc.effect, "memory.consolidate/"+doc.info.Revision+"/"+contentHash(content)), changes)
		if errors.Is(err, ErrChanged) {
			// Somebody wrote MEMORY.md, the overflow or the watermark. The watermark of another replica may say that there is nothing left to do.
			latest, stateErr := s.readState(ctx)
			if stateErr != nil {
				return stateErr
			}
			if latest.info.Revision != st.info.Revision {
				*st = latest
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		r.add(n, len(dropped))
		if version != "" {
			if r.Previous == "" {
				r.Previous = version
			}
			s.pruneVersions(ctx)
		}
		r.Cursor = cursor
		*st, err = s.readState(ctx)
		return err
	}
	return errdefs.New(errdefs.ErrAborted, Domain, ReasonConflict, "%s changed %d times while it was being merged; nothing was written", memoryFile, maxAttempts).
		With("path", memoryFile).With("attempts", fmt.Sprint(maxAttempts))
}

func (r *ConsolidateResult) add(n counts, dropped int) {
	r.Added += n.added
	r.Superseded += n.superseded
	r.Duplicates += n.duplicates
	r.Overflowed += dropped
}

// changes gives the writes of one merge, in the order in which a crash between them does no harm.
func (s *Service) changes(ctx context.Context, doc memoryDoc, content string, out []moved, next state) (changes []Change, version string, err error) {
	if len(out) > 0 {
		more, err := s.overflowChanges(ctx, out, next)
		if err != nil {
			return nil, "", err
		}
		changes = append(changes, more...)
	}
	if content != doc.content {
		// The records of what is replaced stay until the next merge, for the version that has it.
		records, err := encodeRecords(union(doc.cur.records(), doc.records))
		if err != nil {
			return nil, "", err
		}
		condition, revision := guard(doc.recordInfo)
		changes = append(changes, Change{Path: memoryRecords, Content: records, Condition: condition, Revision: revision})
		if doc.info.Revision != "" {
			version = versionID(next.RunTime, doc.content)
			changes = append(changes, keepVersion(version, doc.content))
		}
		condition, revision = guard(doc.info)
		changes = append(changes, Change{Path: memoryFile, Content: []byte(content), Condition: condition, Revision: revision})
	}
	watermark, err := next.change()
	if err != nil {
		return nil, "", err
	}
	return append(changes, watermark), version, nil
}

// union gives the new records and those old ones that are about other lines.
func union(records, old []Record) []Record {
	have := map[string]bool{}
	for _, r := range records {
		have[r.lineHash()+r.Heading] = true
	}
	for _, r := range old {
		if key := r.lineHash() + r.Heading; !have[key] {
			have[key] = true
			records = append(records, r)
		}
	}
	const most = 5000
	return records[:min(len(records), most)]
}

// memoryDoc is MEMORY.md as it was read.
type memoryDoc struct {
	content    string
	info       File
	records    []Record
	recordInfo File
	cur        *curated
	effect     string
}

func (s *Service) readMemory(ctx context.Context) (d memoryDoc, err error) {
	c, err := callOf(ctx)
	if err != nil {
		return d, err
	}
	d.effect = c.id.Effect
	data, info, err := s.files.Read(ctx, memoryFile)
	if err != nil && !errors.Is(err, ErrNoFile) {
		return d, err
	}
	d.content, d.info = string(data), info
	if d.records, d.recordInfo, err = s.readRecords(ctx, memoryFile); err != nil {
		return d, err
	}
	d.cur = parseCurated(d.content, d.records)
	return d, nil
}

// promote puts facts that were just saved into MEMORY.md, by rules. The watermark stays: the next consolidation sees them again and finds them there.
func (s *Service) promote(ctx context.Context, w writing, entries []*entry) (bool, error) {
	unlock, err := s.consolidating.lock(ctx, w.bucket.Key())
	if err != nil {
		return false, err
	}
	defer unlock()
	for range maxAttempts {
		doc, err := s.readMemory(ctx)
		if err != nil {
			return false, err
		}
		var todo []ledgerEntry
		for _, e := range entries {
			if e.duplicate == nil || !doc.cur.has(e.record.Hash) && e.duplicate.Path != memoryFile {
				st := statement{Record: e.record}
				st.Unit.Text = e.text
				todo = append(todo, ledgerEntry{st, w.path})
			}
		}
		now := s.now().In(s.zone)
		_, out := planByRules(doc.cur, todo).apply(doc.cur, now)
		dropped, _ := doc.cur.fit(s.opts.BudgetTokens, now)
		content := doc.cur.String()
		if content == doc.content {
			return true, nil
		}
		changes, _, err := s.changes(ctx, doc, content, append(out, dropped...), state{RunTime: now})
		if err != nil {
			return false, err
		}
		changes = slices.DeleteFunc(changes, func(c Change) bool { return c.Path == stateFile })
		_, err = s.files.Write(ctx, effect.Derive(doc.effect, "memory.promote/"+doc.info.Revision+"/"+contentHash(content)), changes)
		if err == nil {
			return true, nil
		}
		if !errors.Is(err, ErrChanged) {
			s.log.WarnContext(ctx, "facts are saved but not in MEMORY.md yet", "error", err)
			return false, err
		}
	}
	return false, nil
}
