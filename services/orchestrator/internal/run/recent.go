package run

import (
	"context"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// remember keeps an ended run, for those who ask soon.
func (m *Manager) remember(r *loop.Run, id identity.Identity) {
	key, err := id.Thread()
	if err != nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	at := key.Key() + "\x00" + r.ID
	if _, ok := m.ended[at]; !ok {
		m.endedOrder = append(m.endedOrder, at)
	}
	m.ended[at] = runView(r, threadProto(key))
	if len(m.endedOrder) > keptRuns {
		delete(m.ended, m.endedOrder[0])
		m.endedOrder = m.endedOrder[1:]
	}
}

// keepAttributes holds the attributes of a call until its run starts here; they are never persisted.
func (m *Manager) keepAttributes(run string, attributes map[string]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(attributes) > 0 && len(m.attributes) < keptAttributes {
		m.attributes[run] = attributes
	}
}

func (m *Manager) takeAttributes(run string) map[string]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.attributes[run]
	delete(m.attributes, run)
	return out
}

// modelName is the full name of a model, or the name as it was given when it can't be resolved: the request itself will say why.
func (m *Manager) modelName(ctx context.Context, name string) string {
	if r, err := m.models.Resolve(ctx, name); err == nil {
		return r.Ref
	}
	return name
}

func tooMany(limit int, scope string) error {
	return errdefs.New(errdefs.ErrResourceExhausted, Domain, "TOO_MANY_RUNS", "too much work is waiting or being done (%s: %d)", scope, limit).
		With("limit", itoa(limit)).With("scope", scope).RetryIn(time.Second)
}
