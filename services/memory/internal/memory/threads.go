package memory

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/index/pool"
)

// cursorSource is the source that stands for how far changes of threads were read. No session has that name: it begins with a control character.
const cursorSource = "\x01changes"

// SearchThreads finds messages in the caller's threads.
func (s *Service) SearchThreads(ctx context.Context, req SearchRequest) (SearchResult, error) {
	c, err := callOf(ctx)
	if err != nil {
		return SearchResult{}, err
	}
	if err := s.requireThreads(); err != nil {
		return SearchResult{}, err
	}
	key, err := c.threadIndex()
	if err != nil {
		return SearchResult{}, err
	}
	for range maxAttempts {
		r, err := s.search(ctx, key, req, s.threadSync(c))
		if err != nil {
			return r, err
		}
		stale, err := s.staleThreads(ctx, r.Hits)
		if err != nil || len(stale) == 0 {
			return r, err
		}
		if err := s.readAgain(ctx, key, stale); err != nil {
			return SearchResult{}, err
		}
	}
	return SearchResult{}, errdefs.New(errdefs.ErrUnavailable, Domain, ReasonIndexBehind, "threads are being redacted while they are searched").RetryIn(time.Second)
}

// staleThreads gives the threads of hits whose messages are not in the journal any more. A redaction does not make a thread longer, so the cursor may pass it by together with
// new messages; what was redacted must not be shown even once.
func (s *Service) staleThreads(ctx context.Context, hits []Hit) (map[string]bool, error) {
	stale := map[string]bool{}
	for _, h := range hits {
		if stale[h.Doc.Session] {
			continue
		}
		now, _, err := s.threads.Messages(ctx, h.Doc.Session, h.Doc.Seq-1, h.Doc.Seq)
		if errdefs.ClassOf(err) == errdefs.ErrNotFound {
			stale[h.Doc.Session] = true
			continue
		}
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(now, func(m Message) bool { return m.Seq == h.Doc.Seq && m.Text == h.Doc.Text }) {
			stale[h.Doc.Session] = true
		}
	}
	return stale, nil
}

// readAgain replaces the messages of threads in the index by those of the journal.
func (s *Service) readAgain(ctx context.Context, key string, sessions map[string]bool) error {
	err := s.pool.Use(ctx, key, func(l *pool.Lease) error {
		if err := l.Lock(ctx); err != nil {
			return err
		}
		defer l.Unlock()
		for session := range sessions {
			if err := s.dropThread(ctx, l, session); err != nil {
				return err
			}
			if err := s.indexThread(ctx, l, ThreadHead{Session: session, Seq: -1}, "", ""); err != nil {
				return err
			}
		}
		return nil
	})
	return public(err, key)
}

// threadSync brings an index of threads up to date with the journal.
func (s *Service) threadSync(c call) syncFunc {
	return func(ctx context.Context, l *pool.Lease, key string, within time.Duration) (fresh Freshness, err error) {
		if err := l.Lock(ctx); err != nil {
			return fresh, err
		}
		defer l.Unlock()
		started := s.now()
		known, err := l.Revisions(ctx)
		if err != nil {
			return fresh, err
		}
		if c.id.User == "" {
			// The caller is anonymous: the session is all that it may see.
			err = s.indexThread(ctx, l, ThreadHead{Session: c.id.Session, Seq: -1}, known[c.id.Session], "")
			fresh = Freshness{Current: true, SyncTime: started}
		} else {
			fresh, err = s.followThreads(ctx, l, known, started, within)
		}
		s.status.set(key, func(st *keyStatus) {
			st.indexErr = errorText(err)
			if err == nil {
				st.synced, st.pending = started, fresh.PendingFiles
			}
		})
		return fresh, err
	}
}

// followThreads reads the threads that changed since the cursor.
func (s *Service) followThreads(ctx context.Context, ix index.Index, known map[string]string, started time.Time, within time.Duration) (Freshness, error) {
	cursor := known[cursorSource]
	for {
		page, err := s.threads.Changes(ctx, cursor)
		if err != nil {
			return Freshness{}, err
		}
		for _, session := range page.Deleted {
			if err := s.dropThread(ctx, ix, session); err != nil {
				return Freshness{}, err
			}
			delete(known, session)
		}
		for i, head := range page.Heads {
			if within > 0 && s.now().Sub(started) > within {
				// The page is read again from its start next time; threads that were done under this cursor are passed over then.
				return Freshness{PendingFiles: len(page.Heads) - i, SyncTime: started}, nil
			}
			if err := s.indexThread(ctx, ix, head, known[head.Session], cursor); err != nil {
				return Freshness{}, err
			}
		}
		if page.Cursor != cursor {
			cursor = page.Cursor
			err := ix.Apply(ctx, index.Batch{Sources: map[string]*index.Source{cursorSource: {Revision: cursor}}})
			if err != nil {
				return Freshness{}, err
			}
		}
		if !page.More {
			return Freshness{Current: true, SyncTime: started}, nil
		}
	}
}

// indexThread adds the messages of a thread that the index does not have. A thread that changed without growing was redacted: it is read from its start.
// The revision of a thread in the index is its last sequence and the cursor under which it was read.
func (s *Service) indexThread(ctx context.Context, ix index.Index, head ThreadHead, revision, cursor string) error {
	seq, under, _ := strings.Cut(revision, "|")
	after, err := strconv.ParseInt(seq, 10, 64)
	if err != nil {
		after = 0
	}
	if after > 0 && head.Seq >= 0 && after >= head.Seq {
		if under == cursor {
			return nil
		}
		if err := s.dropThread(ctx, ix, head.Session); err != nil {
			return err
		}
		after = 0
	}
	messages, last, err := s.threads.Messages(ctx, head.Session, after, 0)
	if err != nil {
		return err
	}
	if last <= after {
		return nil
	}
	b := index.Batch{Sources: map[string]*index.Source{head.Session: {Revision: strconv.FormatInt(last, 10) + "|" + cursor}}}
	for _, m := range messages {
		if m.Synthetic || m.Text == "" {
			continue
		}
		meta, err := json.Marshal(m.ID)
		if err != nil {
			return fmt.Errorf("memory: message: %w", err)
		}
		b.Put = append(b.Put, index.Doc{
			// By message, not by event: an input that is received and then appended is one message.
			ID: head.Session + "\x01" + m.ID, Kind: index.KindMessage, Source: head.Session, Text: m.Text, Time: m.Time,
			Session: head.Session, Seq: m.Seq, Speaker: m.Speaker, Hash: contentHash(m.Speaker + "\n" + m.Text), Trust: uint8(trustOf(m.Speaker)), Meta: meta,
		})
	}
	return ix.Apply(ctx, b)
}

// dropThread removes a thread from the index.
func (s *Service) dropThread(ctx context.Context, ix index.Index, session string) error {
	const batch = 1000
	for {
		found, err := ix.Lookup(ctx, index.FieldSource, session, batch)
		if err != nil {
			return err
		}
		b := index.Batch{}
		for _, d := range found {
			b.Delete = append(b.Delete, d.ID)
		}
		if len(found) < batch {
			b.Sources = map[string]*index.Source{session: nil}
			return ix.Apply(ctx, b)
		}
		if err := ix.Apply(ctx, b); err != nil {
			return err
		}
	}
}

// trustOf is how far what a speaker says may be believed.
func trustOf(speaker string) Trust {
	switch speaker {
	case "user":
		return TrustUser
	case "assistant":
		return TrustAgent
	}
	return TrustUntrusted
}
