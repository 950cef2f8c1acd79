package model

import (
	"context"
	"fmt"
	"sort"
	"strings"
)

// OfflineName is the name of the provider that is the last resort of [Registry.Default].
const OfflineName = "offline"

// Ref names a model at a provider.
type Ref struct {
	Provider string
	Model    string
}

// String is "provider:model", or the provider alone when it has no models to choose from.
func (r Ref) String() string {
	if r.Model == "" {
		return r.Provider
	}
	return r.Provider + ":" + r.Model
}

// Registry holds the providers of one process. It does not change after NewRegistry.
type Registry struct {
	fallback  string
	providers map[string]Provider
}

// NewRegistry makes a registry. Names without a provider's prefix go to defaultProvider, which must be among the
// providers; two providers of one name are an error.
func NewRegistry(defaultProvider string, providers ...Provider) (*Registry, error) {
	r := &Registry{fallback: defaultProvider, providers: map[string]Provider{}}
	for _, p := range providers {
		if _, dup := r.providers[p.Name()]; dup {
			return nil, badRequest("two model providers are named %q", p.Name())
		}
		r.providers[p.Name()] = p
	}
	if _, ok := r.providers[defaultProvider]; !ok {
		return nil, badRequest("the default model provider %q is not registered (%s)", defaultProvider, strings.Join(r.Names(), ", "))
	}
	return r, nil
}

// Names lists the providers, sorted.
func (r *Registry) Names() []string {
	names := make([]string, 0, len(r.providers))
	for name := range r.providers {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Provider finds a provider by its name.
func (r *Registry) Provider(name string) (Provider, bool) {
	p, ok := r.providers[name]
	return p, ok
}

// Parse reads a model name. It has a provider's prefix only if a registered provider stands before its first colon:
// "ollama:llama3:8b" is llama3:8b at ollama, while "llama3:8b" and "qwen3-max" go whole to the default provider. The bare
// name "offline" is that provider, which has no models to choose from.
func (r *Registry) Parse(name string) (Ref, error) {
	name = strings.TrimSpace(name)
	if name == "" {
		return Ref{}, badRequest("the model name is empty")
	}
	if before, after, ok := strings.Cut(name, ":"); ok {
		if _, known := r.providers[before]; known {
			return Ref{before, after}, nil
		}
	}
	if _, known := r.providers[OfflineName]; known && name == OfflineName {
		return Ref{OfflineName, ""}, nil
	}
	return Ref{r.fallback, name}, nil
}

// Resolve finds the provider of a model name and the name that the provider knows.
func (r *Registry) Resolve(name string) (Provider, string, error) {
	ref, err := r.Parse(name)
	if err != nil {
		return nil, "", err
	}
	return r.providers[ref.Provider], ref.Model, nil
}

// Selection is a default model and the reason for it, in words fit for the first line of a log.
type Selection struct {
	Ref    Ref
	Reason string
}

// Default chooses the model of agents that name none: configured (GANTRY_MODEL) if it is not empty, else the only
// tool-capable model of the default provider, else offline. A provider that does not answer within ctx counts as having
// no models: the choice never fails because a server is down.
func (r *Registry) Default(ctx context.Context, configured string) (Selection, error) {
	if configured != "" {
		ref, err := r.Parse(configured)
		if err != nil {
			return Selection{}, err
		}
		return Selection{ref, "it is configured"}, nil
	}
	why := r.fallback + " is not used"
	if r.fallback != OfflineName {
		capable, err := r.toolCapable(ctx, r.fallback)
		switch {
		case err != nil:
			why = fmt.Sprintf("%s does not answer (%v)", r.fallback, err)
		case len(capable) == 1:
			return Selection{Ref{r.fallback, capable[0]}, "it is the only installed model that can call tools"}, nil
		case len(capable) == 0:
			why = r.fallback + " has no model that can call tools"
		default:
			why = fmt.Sprintf("%s has several models that can call tools (%s): name one in GANTRY_MODEL", r.fallback, strings.Join(capable, ", "))
		}
	}
	if _, ok := r.providers[OfflineName]; !ok {
		return Selection{}, NewError(KindUnknownModel, r.fallback, "", "no model is configured and %s", why)
	}
	return Selection{Ref{OfflineName, ""}, why}, nil
}

func (r *Registry) toolCapable(ctx context.Context, provider string) ([]string, error) {
	models, err := r.providers[provider].List(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, m := range models {
		if m.Capabilities.Tools {
			names = append(names, m.Name)
		}
	}
	return names, nil
}
