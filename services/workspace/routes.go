package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/services/workspace/internal/backend/composite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// uses says whether anything is kept on a backend.
func (c Config) uses(backend string) bool {
	return c.Backend == backend || slices.Contains(slices.Collect(maps.Values(c.Routes)), backend)
}

// validateRoutes checks the routes, in the order of their prefixes.
func (c Config) validateRoutes() []error {
	var errs []error
	seen := map[string]string{}
	for _, text := range slices.Sorted(maps.Keys(c.Routes)) {
		backend := c.Routes[text]
		prefix, err := composite.ParsePrefix(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("workspace: route %q: %w; name a directory or a file below the root, as in --route memory=%s", text, err, BackendPostgres))
			continue
		}
		if other, ok := seen[prefix.Key()]; ok {
			errs = append(errs, fmt.Errorf("workspace: the routes %q and %q name the same place; keep one of them", other, text))
		}
		seen[prefix.Key()] = text
		if _, ok := backends[backend]; !ok {
			errs = append(errs, fmt.Errorf("workspace: route %q goes to %q, not one of %s", text, backend, strings.Join(slices.Sorted(maps.Keys(backends)), ", ")))
			continue
		}
		if shared[c.Backend] && !shared[backend] {
			errs = append(errs, fmt.Errorf("workspace: route %q goes to %s, which other replicas don't see; with backend %s, routes may go to %s", text, backend, c.Backend,
				strings.Join(slices.Sorted(maps.Keys(shared)), ", ")))
		}
	}
	if len(c.Routes) > composite.MaxRoutes {
		errs = append(errs, fmt.Errorf("workspace: there are %d routes, at most %d are possible", len(c.Routes), composite.MaxRoutes))
	}
	return errs
}

// openStore opens the backend, and those that are routed to. Mounts are for the backend alone: what is routed elsewhere is in no directory of people's.
func openStore(ctx context.Context, cfg Config, mounts map[files.Space]string, deps Deps) (files.Store, error) {
	first, err := backends[cfg.Backend](ctx, cfg, mounts, deps)
	if err != nil {
		return nil, fmt.Errorf("open the %s store: %w", cfg.Backend, err)
	}
	if len(cfg.Routes) == 0 {
		return first, nil
	}
	all := composite.Config{Default: composite.Named{Name: cfg.Backend, Store: first}}
	closeAll := func(err error) error {
		for _, o := range append(all.Others, all.Default) {
			err = errors.Join(err, o.Store.Close())
		}
		return err
	}
	open := map[string]bool{cfg.Backend: true}
	for _, prefix := range slices.Sorted(maps.Keys(cfg.Routes)) {
		backend := cfg.Routes[prefix]
		all.Routes = append(all.Routes, composite.Route{Prefix: prefix, To: backend})
		if open[backend] {
			continue
		}
		store, err := backends[backend](ctx, cfg, nil, deps)
		if err != nil {
			return nil, closeAll(fmt.Errorf("open the %s store of the route %q: %w", backend, prefix, err))
		}
		open[backend] = true
		all.Others = append(all.Others, composite.Named{Name: backend, Store: store})
	}
	store, err := composite.New(all)
	if err != nil {
		return nil, closeAll(fmt.Errorf("set up the routes: %w", err))
	}
	return store, nil
}
