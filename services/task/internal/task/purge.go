package task

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/libs/effect"
)

// purgeBatch is how many tasks one purge removes at most.
const purgeBatch = 1000

// PurgeSpec says what to remove. A task goes when every condition holds.
type PurgeSpec struct {
	IDs         []string
	EndedBefore time.Time
	Keep        int
}

// Purged counts.
type Purged struct {
	Purged, Kept int
	More         bool
}

// Purge removes ended tasks that the viewer sees.
func (e *Engine) Purge(ctx context.Context, v Viewer, bucket string, c Call, spec PurgeSpec) (Purged, error) {
	return update(ctx, e, func(w *work) (Purged, error) {
		return once(w, bucket, c, func() (Purged, error) {
			found, err := w.Purgeable(PurgeQuery{Tenant: v.Tenant, Owner: v.Owner, EndedBefore: spec.EndedBefore, Skip: spec.Keep, Limit: purgeBatch + 1})
			if len(spec.IDs) > 0 {
				found, err = w.purgeableIDs(v, spec)
			}
			if err != nil {
				return Purged{}, err
			}
			return w.purge(found)
		})
	})
}

// purgeableIDs returns those of the named tasks that have ended and fit the other conditions.
func (w *work) purgeableIDs(v Viewer, spec PurgeSpec) ([]Task, error) {
	kept := map[string]bool{}
	if spec.Keep > 0 {
		newest, err := w.Purgeable(PurgeQuery{Tenant: v.Tenant, Owner: v.Owner, Limit: spec.Keep})
		if err != nil {
			return nil, err
		}
		for _, t := range newest {
			kept[t.ID] = true
		}
	}
	var found []Task
	for _, id := range spec.IDs {
		t, err := seen(w, v, id, Bare)
		if err != nil {
			return nil, err
		}
		if t.State.Terminal() && !kept[id] && (spec.EndedBefore.IsZero() || t.EndTime.Before(spec.EndedBefore)) {
			found = append(found, t)
		}
	}
	return found, nil
}

// purge removes tasks unless their result is on its way or children work for them.
func (w *work) purge(tasks []Task) (Purged, error) {
	var out Purged
	for i := range tasks {
		t := &tasks[i]
		if out.Purged+out.Kept == purgeBatch {
			out.More = out.Purged > 0
			break
		}
		mail, err := w.HasMail(t.Tenant, t.ID)
		if err != nil {
			return out, err
		}
		children, err := w.Children(t.Tenant, t.ID)
		if err != nil {
			return out, err
		}
		if mail || len(children) > 0 {
			out.Kept++
			continue
		}
		if err := w.Delete(t); err != nil {
			return out, err
		}
		if err := w.note(t, true); err != nil {
			return out, err
		}
		out.Purged++
	}
	return out, nil
}

// Retention says how long what has ended is kept. Zero values: for ever.
type Retention struct {
	Age     time.Duration
	Count   int
	Changes time.Duration
}

// Retain removes what is older or more than retention allows. It returns whether there may be more to remove.
func (e *Engine) Retain(ctx context.Context, r Retention) (more bool, err error) {
	return update(ctx, e, func(w *work) (bool, error) {
		more := false
		if r.Age > 0 {
			old, err := w.Purgeable(PurgeQuery{EndedBefore: w.now.Add(-r.Age), Limit: purgeBatch + 1})
			if err != nil {
				return false, err
			}
			purged, err := w.purge(old)
			if err != nil {
				return false, err
			}
			more = more || purged.More
		}
		if r.Count > 0 {
			owners, err := w.Crowded(r.Count, 16)
			if err != nil {
				return false, err
			}
			for _, owner := range owners {
				excess, err := w.Purgeable(PurgeQuery{Owner: owner, Skip: r.Count, Limit: purgeBatch + 1})
				if err != nil {
					return false, err
				}
				purged, err := w.purge(excess)
				if err != nil {
					return false, err
				}
				more = more || purged.More || (len(owners) == 16 && purged.Purged > 0)
			}
		}
		effects, err := w.PruneEffects(w.now.Add(-effect.RecordLife), purgeBatch)
		if err != nil || r.Changes <= 0 {
			return more || effects == purgeBatch, err
		}
		changes, err := w.PruneChanges(w.now.Add(-r.Changes), purgeBatch)
		return more || effects == purgeBatch || changes == purgeBatch, err
	})
}
