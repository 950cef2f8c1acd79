// Package models finds the model of a run: by name, else the default one, with what is known of it.
package models

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

const (
	// infoLife is how long what a provider said of a model is believed.
	infoLife = time.Minute
	// selectTimeout bounds the choice of the default model: a server that is down must not hold up a start.
	selectTimeout = 3 * time.Second
)

// Models resolves names over a registry.
type Models struct {
	registry   *model.Registry
	configured string
	now        func() time.Time

	mu        sync.Mutex
	selection *model.Selection
	known     map[string]known
}

type known struct {
	model run.ResolvedModel
	until time.Time
}

// New makes a resolver. configured is the default model; empty: chosen at first use.
func New(registry *model.Registry, configured string, now func() time.Time) *Models {
	return &Models{registry: registry, configured: configured, now: now, known: map[string]known{}}
}

// Default chooses the default model and says why.
func (m *Models) Default(ctx context.Context) (model.Selection, error) {
	m.mu.Lock()
	chosen := m.selection
	m.mu.Unlock()
	if chosen != nil {
		return *chosen, nil
	}
	ctx, cancel := context.WithTimeout(ctx, selectTimeout)
	defer cancel()
	s, err := m.registry.Default(ctx, m.configured)
	if err != nil {
		return s, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.selection = &s
	return s, nil
}

// Resolve implements [run.Models].
func (m *Models) Resolve(ctx context.Context, name string) (run.ResolvedModel, error) {
	if strings.TrimSpace(name) == "" {
		s, err := m.Default(ctx)
		if err != nil {
			return run.ResolvedModel{}, err
		}
		name = s.Ref.String()
	}
	m.mu.Lock()
	k, ok := m.known[name]
	m.mu.Unlock()
	if ok && m.now().Before(k.until) {
		return k.model, nil
	}
	ref, err := m.registry.Parse(name)
	if err != nil {
		return run.ResolvedModel{}, err
	}
	provider, _ := m.registry.Provider(ref.Provider)
	info, err := provider.Info(ctx, ref.Model)
	if err != nil {
		return run.ResolvedModel{}, m.unknown(ctx, ref, provider, err)
	}
	out := run.ResolvedModel{Provider: provider, Ref: ref.String(), Name: ref.Model, Info: info}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) >= 1024 {
		clear(m.known)
	}
	m.known[name] = known{out, m.now().Add(infoLife)}
	return out, nil
}

// unknown says that there is no such model, and which there are; other errors pass.
func (m *Models) unknown(ctx context.Context, ref model.Ref, p model.Provider, err error) error {
	switch kind, ok := model.KindOf(err); {
	case ok && kind == model.KindUnavailable:
		// A misspelt provider goes whole to the default one: say where the name was looked for.
		return errdefs.New(errdefs.ErrUnavailable, run.Domain, "MODEL_UNAVAILABLE", "the model %q is looked for at %s, which is not reached (providers: %s): %w",
			ref.Model, ref.Provider, strings.Join(m.registry.Names(), ", "), err).With("model", ref.String())
	case !ok || kind != model.KindUnknownModel:
		return err
	}
	var names []string
	if list, lerr := p.List(ctx); lerr == nil {
		for _, i := range list {
			names = append(names, model.Ref{Provider: p.Name(), Model: i.Name}.String())
		}
	}
	return errdefs.New(errdefs.ErrNotFound, run.Domain, "MODEL_NOT_FOUND", "no provider has a model %q", ref).
		With("model", ref.String()).With("known", strings.Join(names[:min(len(names), 20)], ","))
}

// Listed is one model of [Models.List].
type Listed struct {
	Ref     string
	Info    model.Info
	Default bool
	Note    string
}

// List names the models of all providers, the default first. A provider that does not answer is listed with the reason.
func (m *Models) List(ctx context.Context) []Listed {
	s, _ := m.Default(ctx)
	var out []Listed
	for _, name := range m.registry.Names() {
		p, _ := m.registry.Provider(name)
		short, cancel := context.WithTimeout(ctx, selectTimeout)
		list, err := p.List(short)
		cancel()
		if err != nil {
			out = append(out, Listed{Ref: name, Note: "gives no models now: " + errdefs.ClassOf(err).Error()})
			continue
		}
		for _, info := range list {
			ref := model.Ref{Provider: name, Model: info.Name}
			if name == model.OfflineName {
				ref.Model = ""
			}
			l := Listed{Ref: ref.String(), Info: info, Default: ref == s.Ref}
			if l.Default {
				l.Note = s.Reason
			}
			out = append(out, l)
		}
	}
	slices.SortStableFunc(out, func(a, b Listed) int {
		switch {
		case a.Default == b.Default:
			return strings.Compare(a.Ref, b.Ref)
		case a.Default:
			return -1
		}
		return 1
	})
	return out
}
