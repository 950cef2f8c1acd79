package local

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlstore"
	"github.com/gantry-agents/gantry/services/workspace/internal/disktree"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// scanEvery is how often a space that somebody waits for is scanned.
	scanEvery = time.Second
	scanPage  = 1000
)

// Wait implements [files.Store]. It looks for changes from outside now and then.
func (s *Store) Wait(ctx context.Context, space files.Space, after files.Cursor) error {
	if err := s.scanIfDue(ctx, space); err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, scanEvery)
	defer cancel()
	err := s.index.Wait(limited, space, after)
	if ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// scanIfDue scans a space unless that was done a moment ago.
func (s *Store) scanIfDue(ctx context.Context, space files.Space) error {
	s.mu.Lock()
	due := s.now().Sub(s.scans[space]) >= scanEvery
	if due {
		if len(s.scans) > 10_000 {
			clear(s.scans)
		}
		s.scans[space] = s.now()
	}
	s.mu.Unlock()
	if !due {
		return nil
	}
	return s.scan(ctx, space)
}

// scan logs what was changed outside.
func (s *Store) scan(ctx context.Context, space files.Space) error {
	_, release, err := s.acquire(ctx, space)
	if err != nil {
		return err
	}
	defer release()
	t := &tree{store: s, space: space}
	seen := map[string]bool{}
	var outside []files.Node
	for after := ""; ; {
		page, err := t.Below(ctx, fsops.Path{}, after, scanPage)
		if err != nil {
			return err
		}
		for _, n := range page.Nodes {
			after = n.Path.Key()
			seen[after] = true
			if _, wrong := fsops.Text(after); n.Kind == files.KindFile && n.Author == disktree.AuthorOutside && !wrong {
				outside = append(outside, n)
			}
		}
		if !page.More || len(page.Nodes) == 0 {
			break
		}
	}
	gone, err := s.gone(ctx, space, seen)
	if err != nil {
		return err
	}
	outside, err = s.news(ctx, space, outside)
	if err != nil || len(outside)+len(gone) == 0 {
		return err
	}
	_, err = s.index.Update(ctx, space, files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
		index := tx.(sqlstore.IndexTx)
		for _, n := range outside {
			if err := index.Notice(ctx, n, detail{Signature: n.Ref, Path: n.Path.String()}.encode(), 0); err != nil {
				return nil, err
			}
			if err := tx.Log(ctx, files.Change{Kind: files.ChangeWritten, Path: n.Path, Revision: n.Revision, Author: disktree.AuthorOutside}); err != nil {
				return nil, err
			}
		}
		for _, p := range gone {
			if err := index.Unrecord(ctx, p); err != nil {
				return nil, err
			}
			if err := tx.Log(ctx, files.Change{Kind: files.ChangeDeleted, Path: p, Author: disktree.AuthorOutside}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	return err
}

// gone returns the files that the index knows and the disk has not.
func (s *Store) gone(ctx context.Context, space files.Space, seen map[string]bool) ([]fsops.Path, error) {
	var out []fsops.Path
	known := s.index.Space(space)
	for after := ""; ; {
		page, err := known.Below(ctx, fsops.Path{}, after, scanPage)
		if err != nil {
			return nil, err
		}
		for _, n := range page.Nodes {
			if after = n.Path.Key(); n.Kind == files.KindFile && !seen[after] {
				out = append(out, n.Path)
			}
		}
		if !page.More {
			return out, nil
		}
	}
}

// news leaves out what earlier scans have logged.
func (s *Store) news(ctx context.Context, space files.Space, nodes []files.Node) ([]files.Node, error) {
	var out []files.Node
	for len(nodes) > 0 {
		part := nodes[:min(len(nodes), scanPage)]
		nodes = nodes[len(part):]
		keys := make([]string, len(part))
		for i, n := range part {
			keys[i] = n.Path.Key()
		}
		known, err := s.index.Known(ctx, space, keys)
		if err != nil {
			return nil, err
		}
		for _, n := range part {
			if signatureOf(known[n.Path.Key()]) != n.Ref {
				out = append(out, n)
			}
		}
	}
	return out, nil
}
