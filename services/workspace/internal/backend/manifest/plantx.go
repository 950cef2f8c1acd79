package manifest

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// keeps says whether a file becomes a previous revision when it is replaced: not one that only this run has seen.
func (p *plan) keeps(old *item) bool {
	return old != nil && p.live.store.cfg.History.Keeps(old.Node) && !p.made[old.Revision]
}

// noteKept is for a path of which a previous revision may have been kept: what is beyond the policy goes.
func (p *plan) noteKept(kept bool, path fsops.Path) error {
	if !kept {
		return nil
	}
	p.noted[path.Key()] = true
	policy := p.live.store.cfg.History
	before, aged := policy.Before(p.now)
	var number, beyond int64
	p.state.eachPast(path, func(r *revision) bool {
		if number++; number > int64(policy.Count) || aged && r.Replaced.Before(before) {
			beyond++
		}
		return true
	})
	if beyond == 0 {
		return nil
	}
	return p.do(op{kind: opDrop, path: path, number: beyond})
}

// goes is for a path that has nothing any more.
func (p *plan) goes(old *item, kept bool) error {
	key := old.Path.Key()
	p.gone[key] = true
	if !kept && p.noted[key] {
		return p.do(op{kind: opMark, path: old.Path, removed: true})
	}
	return p.noteKept(kept, old.Path)
}

// comesBack is for a path that gets a file where nothing was.
func (p *plan) comesBack(path fsops.Path) error {
	if !p.gone[path.Key()] {
		return nil
	}
	delete(p.gone, path.Key())
	if !p.noted[path.Key()] {
		return nil
	}
	return p.do(op{kind: opMark, path: path})
}

// SetWhiteout implements [files.Tx].
func (p *plan) SetWhiteout(_ context.Context, path fsops.Path) error {
	if _, found := p.state.hasWhite(path.Key()); found {
		return nil
	}
	return p.do(op{kind: opWhite, path: path})
}

// ClearWhiteout implements [files.Tx].
func (p *plan) ClearWhiteout(_ context.Context, path fsops.Path) error {
	if _, found := p.state.hasWhite(path.Key()); !found {
		return nil
	}
	return p.do(op{kind: opUnwhite, path: path})
}

// Log implements [files.Tx].
func (p *plan) Log(_ context.Context, c files.Change) error {
	return p.do(op{kind: opLog, change: c})
}

// Usage implements [files.Tx].
func (p *plan) Usage(context.Context) (files.Usage, error) { return p.state.usage, nil }

// Get implements [files.Tree].
func (p *plan) Get(ctx context.Context, paths ...fsops.Path) ([]files.Node, error) {
	return p.state.get(paths), ctx.Err()
}

// Children implements [files.Tree].
func (p *plan) Children(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return p.state.page(dir, after, limit, false), ctx.Err()
}

// Below implements [files.Tree].
func (p *plan) Below(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	return p.state.page(dir, after, limit, true), ctx.Err()
}

// Whiteouts implements [files.Own]. The caller must not change what it gets.
func (p *plan) Whiteouts(ctx context.Context) ([]string, error) { return p.state.whites, ctx.Err() }

// Revisions implements [files.Own].
func (p *plan) Revisions(_ context.Context, path fsops.Path, after string, limit int) ([]files.Node, bool, error) {
	return p.state.revisions(path, after, limit)
}

// Revision implements [files.Own].
func (p *plan) Revision(ctx context.Context, path fsops.Path, revision string) (files.Node, error) {
	return p.state.revision(path, revision), ctx.Err()
}

// Open implements [files.Tree].
func (p *plan) Open(ctx context.Context, n files.Node) (files.Content, error) {
	it := p.live.find(p.state, n)
	if it == nil {
		return nil, files.ErrChanged
	}
	return newContent(ctx, it, p.chunk), ctx.Err()
}

// Load implements [files.Tree].
func (p *plan) Load(ctx context.Context, nodes ...files.Node) ([][]byte, error) {
	out := make([][]byte, len(nodes))
	for i, n := range nodes {
		it := p.live.find(p.state, n)
		if it == nil {
			continue
		}
		out[i] = make([]byte, 0, it.Size)
		if err := p.eachChunk(ctx, it.pieces, func(part []byte) { out[i] = append(out[i], part...) }); err != nil {
			return nil, err
		}
	}
	return out, ctx.Err()
}

// chunk reads a chunk, also one that is not written yet.
func (p *plan) chunk(ctx context.Context, at piece) ([]byte, error) {
	if data, here := p.pending[at]; here {
		return data, nil
	}
	if data, here := p.batch.pending[at]; here {
		return data, nil
	}
	return p.live.store.chunk(ctx, p.live.space, at)
}

func (p *plan) eachChunk(ctx context.Context, pieces []piece, f func([]byte)) error {
	for _, at := range pieces {
		data, err := p.chunk(ctx, at)
		if err != nil {
			return err
		}
		f(data)
	}
	return nil
}
