package composite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Named is a store and the name of it, which cursors remember.
type Named struct {
	Name  string
	Store files.Store
}

// Route puts what is at or below a prefix into a store.
type Route struct {
	Prefix string
	// To is the name of a store.
	To string
}

// Config says what goes where.
type Config struct {
	// Default keeps what no route names.
	Default Named
	// Others are the further stores, each named once.
	Others []Named
	// Routes to them, or back to the default. The longest prefix wins.
	Routes []Route
	// SpoolDir is the directory for content whose store is not known yet. "": that for temporary files.
	SpoolDir string
}

// Store implements [files.Store].
type Store struct {
	stores []files.Store // the default first
	names  []string
	// inOrder are the stores as cursors name them, whatever the order of the configuration.
	inOrder []int
	routes  *routes
	spool   string
	closed  atomic.Bool
}

var _ files.Store = (*Store)(nil)

// New returns a store over others, which it closes when it is closed. When it fails, they stay open.
func New(cfg Config) (*Store, error) {
	s := &Store{spool: cfg.SpoolDir, routes: &routes{prefixes: map[string]int{}}}
	marks := map[string]string{}
	for _, n := range append([]Named{cfg.Default}, cfg.Others...) {
		if n.Store == nil || n.Name == "" {
			return nil, errors.New("a store without a name, or a name without a store")
		}
		mark := string(markOf(n.Name))
		if other, ok := marks[mark]; ok {
			return nil, fmt.Errorf("the names %q and %q can't be told apart in cursors", other, n.Name)
		}
		marks[mark] = n.Name
		s.inOrder = append(s.inOrder, len(s.stores))
		s.stores, s.names = append(s.stores, n.Store), append(s.names, n.Name)
	}
	slices.SortFunc(s.inOrder, func(a, b int) int { return bytes.Compare(markOf(s.names[a]), markOf(s.names[b])) })
	shared := cfg.Default.Store.Capabilities().Shared
	for _, r := range cfg.Routes {
		prefix, err := ParsePrefix(r.Prefix)
		if err != nil {
			return nil, err
		}
		to := slices.Index(s.names, r.To)
		if to < 0 {
			return nil, fmt.Errorf("the route %q goes to %q, which is not among the stores", r.Prefix, r.To)
		}
		if shared && !s.stores[to].Capabilities().Shared {
			return nil, fmt.Errorf("the route %q goes to %q, which other replicas don't see; from the shared store %q, routes go to shared stores only", r.Prefix, r.To, cfg.Default.Name)
		}
		if err := s.routes.add(prefix, to); err != nil {
			return nil, err
		}
	}
	s.routes.close()
	return s, nil
}

// Capabilities implements [files.Store]: what every store has. The plain files are those of the default store, without what is routed elsewhere.
func (s *Store) Capabilities() files.Capabilities {
	out := s.stores[0].Capabilities()
	out.Name = strings.Join(s.names, "+")
	for _, other := range s.stores[1:] {
		c := other.Capabilities()
		out.GuardsAllWriters = out.GuardsAllWriters && c.GuardsAllWriters
		out.ArbitraryNames = out.ArbitraryNames && c.ArbitraryNames
		out.Shared = out.Shared && c.Shared
	}
	return out
}

// Locate implements [files.Store]: the directory of the default store, in which what is routed elsewhere is missing.
func (s *Store) Locate(space files.Space) (string, bool, error) { return s.stores[0].Locate(space) }

// Mounted says whether the default store keeps a space in a directory of its own.
func (s *Store) Mounted(space files.Space) bool {
	mounted, ok := s.stores[0].(interface{ Mounted(files.Space) bool })
	return ok && mounted.Mounted(space)
}

// Owner names the store that owns a path of a space.
func (s *Store) Owner(space files.Space, p fsops.Path) string {
	return s.names[s.routesOf(space).owner(p)]
}

// Owners names all stores.
func (s *Store) Owners() []string { return slices.Clone(s.names) }

// holding are the stores that hold something of a space.
func (s *Store) holding(space files.Space) []int {
	if space.Template() {
		return []int{0}
	}
	out := make([]int, len(s.stores))
	for i := range out {
		out[i] = i
	}
	return out
}

// Usage implements [files.Store]: the sum of all stores.
func (s *Store) Usage(ctx context.Context, space files.Space) (files.Usage, error) {
	var sum files.Usage
	for _, i := range s.holding(space) {
		u, err := s.stores[i].Usage(s.in(ctx, i), space)
		if err != nil {
			return files.Usage{}, err
		}
		sum = add(sum, u)
	}
	return sum, nil
}

func add(a, b files.Usage) files.Usage {
	return files.Usage{Bytes: a.Bytes + b.Bytes, Files: a.Files + b.Files, Whiteouts: a.Whiteouts + b.Whiteouts}
}

// Spaces implements [files.Store].
func (s *Store) Spaces(ctx context.Context, prefix, after files.Space, limit int) ([]files.Space, error) {
	var all []files.Space
	for _, store := range s.stores {
		some, err := store.Spaces(ctx, prefix, after, limit)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), limit)], nil
}

// Forget implements [files.Store]. The default store goes first, since it may refuse. After a failure the rest is there still; repeat the call.
func (s *Store) Forget(ctx context.Context, space files.Space) (int64, error) {
	var gone int64
	for _, store := range s.stores {
		n, err := store.Forget(ctx, space)
		gone += n
		if err != nil {
			return gone, err
		}
	}
	return gone, nil
}

// Close implements [files.Store]. The default store goes first: updates of the others run within its own.
func (s *Store) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	var errs []error
	for _, store := range s.stores {
		errs = append(errs, store.Close())
	}
	return errors.Join(errs...)
}

func (s *Store) open() error {
	if s.closed.Load() {
		return errdefs.New(errdefs.ErrUnavailable, fsops.Domain, "", "the store is closed")
	}
	return nil
}
