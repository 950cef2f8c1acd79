package composite

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// MaxRoutes bounds the routes of a store: a listing of the root looks at each store, and an update of a directory above a route at each route.
const MaxRoutes = 64

// routes says which store owns a path.
type routes struct {
	prefixes map[string]int   // key of the prefix → store
	above    map[string][]int // directory with routes below it → the stores that may have something there, its owner first
}

// ParsePrefix reads the prefix of a route: a path like any other, which names a directory or one file. The root and reserved places have no route.
func ParsePrefix(text string) (fsops.Path, error) {
	p, err := fsops.ParsePath(text)
	if err != nil {
		return fsops.Path{}, err
	}
	if _, wrong := fsops.Text(text); wrong {
		return fsops.Path{}, fsops.ErrNameUnsupported(text, "a route is in UTF-8")
	}
	if p.IsRoot() {
		return fsops.Path{}, fmt.Errorf("the route %q names the root, which is what the default store is for", text)
	}
	return p, nil
}

// add adds a route.
func (r *routes) add(prefix fsops.Path, store int) error {
	if _, ok := r.prefixes[prefix.Key()]; ok {
		return fmt.Errorf("%q is routed twice", prefix)
	}
	if len(r.prefixes) == MaxRoutes {
		return fmt.Errorf("over %d routes", MaxRoutes)
	}
	r.prefixes[prefix.Key()] = store
	return nil
}

// close works out what the routes mean for the directories above them.
func (r *routes) close() {
	r.above = map[string][]int{}
	for prefix, store := range r.prefixes {
		for dir := fsops.PathOf(prefix); !dir.IsRoot(); {
			dir = dir.Parent()
			if !slices.Contains(r.above[dir.Key()], store) {
				r.above[dir.Key()] = append(r.above[dir.Key()], store)
			}
		}
	}
	for dir, stores := range r.above {
		owner := r.owner(fsops.PathOf(dir))
		stores = slices.DeleteFunc(stores, func(s int) bool { return s == owner })
		slices.Sort(stores)
		r.above[dir] = append([]int{owner}, stores...)
	}
}

// route returns the prefix that a path is routed by, and the store; "" and 0 when it is the default's.
func (r *routes) route(key string) (string, int) {
	for key != "" {
		if store, ok := r.prefixes[key]; ok {
			return key, store
		}
		key = key[:max(strings.LastIndexByte(key, '/'), 0)]
	}
	return "", 0
}

// owner returns the store that owns a path.
func (r *routes) owner(p fsops.Path) int {
	_, store := r.route(p.Key())
	return store
}

// stores returns the stores that may have something at or below a path, its owner first.
func (r *routes) stores(p fsops.Path) []int {
	if s, ok := r.above[p.Key()]; ok {
		return s
	}
	return []int{r.owner(p)}
}

// whole are the routes of a space that is not divided.
var whole = &routes{}

// of returns the routes of a space.
func (s *Store) routesOf(space files.Space) *routes {
	if space.Template() {
		return whole
	}
	return s.routes
}
