package manifest

import (
	"context"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// record adds the outcome of an effect to the entry.
func (p *plan) record(effect files.Effect, outcome []byte) error {
	o := op{kind: opEffect, effect: effect, outcome: outcome, number: p.state.seq}
	p.effects[effect.ID] = &o
	return p.do(o)
}

// recorded looks for the outcome of an effect, in the batch and in the log.
func (p *plan) recorded(ctx context.Context, effect files.Effect) (files.Updated, bool, error) {
	if effect.ID == "" {
		return files.Updated{}, false, nil
	}
	if o, here := p.batch.effects[effect.ID]; here {
		return repeated(effect, o, p.state.generation)
	}
	number, known := p.state.effectEntry(effect.ID)
	if !known {
		return files.Updated{}, false, nil
	}
	n, err := p.live.entry(ctx, p.batch.base, number)
	if err != nil {
		return files.Updated{}, false, err
	}
	for i := range n.ops {
		if o := &n.ops[i]; o.kind == opEffect && o.effect.ID == effect.ID {
			return repeated(effect, o, p.state.generation)
		}
	}
	return files.Updated{}, false, errDamaged("effect")
}

func repeated(effect files.Effect, o *op, generation string) (files.Updated, bool, error) {
	if o.effect.Hash != effect.Hash {
		return files.Updated{}, false, fsops.ErrEffectMismatch(effect.ID)
	}
	return files.Updated{Outcome: o.outcome, Cursor: files.Cursor{Generation: generation, Seq: o.number}, Repeated: true}, true, nil
}

// entry reads one entry, from itself or from its pack.
func (l *live) entry(ctx context.Context, st *state, number int64) (*entry, error) {
	for _, pk := range st.packs {
		if number > pk.through {
			continue
		}
		all, err := l.unpack(ctx, pk)
		if err != nil {
			return nil, err
		}
		for _, n := range all {
			if n.at.Number == number {
				return n, nil
			}
		}
		return nil, errDamaged("pack")
	}
	found, err := l.store.driver.Entries(ctx, l.space, number, number)
	if err != nil {
		return nil, err
	}
	return decodeEntry(found[0])
}
