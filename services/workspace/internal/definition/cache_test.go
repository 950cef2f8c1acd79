package definition

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/local"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/disktree"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A cached definition is the one that would be built, after every change by whomever.
func TestCache(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) (files.Store, error){
		"local": func(t *testing.T) (files.Store, error) {
			return local.Open(t.Context(), local.Config{Dir: t.TempDir()}, time.Now)
		},
		"sqlite": func(t *testing.T) (files.Store, error) {
			return sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "files.db")}, time.Now)
		},
	} {
		t.Run(name, func(t *testing.T) {
			store, err := open(t)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			lower := []files.Lower{{Layer: files.LayerTemplate, Tree: disktree.New(root, nil)}}
			c := &cacheTest{T: t, store: store, dir: dir, cache: NewCache(plain), view: files.NewView(store, "default/user/coder/ana", lower, files.Limits{}, time.Now)}
			c.run()
		})
	}
}

func plain(d Definition) Definition { return d }

type cacheTest struct {
	*testing.T
	store files.Store
	dir   string
	cache *Cache[Definition]
	view  *files.View
}

func (c *cacheTest) outside(name, content string) {
	c.Helper()
	path := filepath.Join(c.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.Fatal(err)
	}
}

func (c *cacheTest) write(name, content string) {
	c.Helper()
	staged, err := c.store.Stage(c.Context(), strings.NewReader(content), 0)
	if err == nil {
		_, err = c.view.Write(c.Context(), files.Call{}, files.Write{Path: fsops.PathOf(name)}, staged)
	}
	if err != nil {
		c.Fatal(err)
	}
}

// get returns the definition, which must be equal to one that is built now, twice; the second time it must come from the cache.
func (c *cacheTest) get() Definition {
	c.Helper()
	want, err := Build(c.Context(), c.view)
	if err != nil {
		c.Fatal(err)
	}
	for range 2 {
		got, err := c.cache.Get(c.Context(), "coder", c.view)
		if err != nil {
			c.Fatal(err)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.Comparer(func(a, b fsops.Path) bool { return a == b })); diff != "" {
			c.Fatalf("(-built +cached):\n%s", diff)
		}
	}
	version, err := c.view.Version(c.Context(), paths...)
	if _, ok := c.cache.have(cacheKey{c.view.Space(), "coder"}, version); !ok || err != nil {
		c.Fatalf("not cached: version %q, %v", version, err)
	}
	return want
}

func (c *cacheTest) run() {
	c.get() // nothing is there
	c.outside("AGENTS.md", "rules one")
	c.outside("skills/one/SKILL.md", "---\ndescription: the first\n---\nbody\n")
	c.outside("subagents/bad.md", "no front matter")
	d := c.get()
	if len(d.Skills) != 1 || d.Rules.Text != "rules one" || len(d.Problems) != 1 || d.Problems[0].Path != "subagents/bad.md" || !d.Problems[0].LeftOut {
		c.Fatalf("got %+v", d)
	}
	// Of the same size and time as before.
	info, err := os.Stat(filepath.Join(c.dir, "AGENTS.md"))
	if err != nil {
		c.Fatal(err)
	}
	c.outside("AGENTS.md", "rules two")
	if err := os.Chtimes(filepath.Join(c.dir, "AGENTS.md"), info.ModTime(), info.ModTime()); err != nil {
		c.Fatal(err)
	}
	if d := c.get(); d.Rules.Text != "rules two" {
		c.Fatalf("got %q", d.Rules.Text)
	}
	c.outside("skills/one/extra.txt", "more")
	if d := c.get(); len(d.Skills[0].Files) != 1 {
		c.Fatalf("got %+v", d.Skills)
	}
	c.write("AGENTS.md", "rules of the bucket")
	if d := c.get(); d.Rules.Text != "rules of the bucket" || d.Rules.Entry.Layer != files.LayerBucket {
		c.Fatalf("got %+v", d.Rules)
	}
	if _, err := c.view.Delete(c.Context(), files.Call{}, files.Delete{Path: fsops.PathOf("skills"), Recursive: true}); err != nil {
		c.Fatal(err)
	}
	if d := c.get(); len(d.Skills) != 0 {
		c.Fatalf("after a whiteout %+v", d.Skills)
	}
	c.write("skills/one/SKILL.md", "---\ndescription: of the bucket\n---\n")
	if d := c.get(); len(d.Skills) != 1 || d.Skills[0].Description != "of the bucket" {
		c.Fatalf("got %+v", d.Skills)
	}
	if err := os.Remove(filepath.Join(c.dir, "subagents", "bad.md")); err != nil {
		c.Fatal(err)
	}
	if d := c.get(); len(d.Problems) != 0 {
		c.Fatalf("got %+v", d.Problems)
	}
}

// The cache of one bucket or agent is not that of another, and it stays within its bounds.
func TestCacheBounds(t *testing.T) {
	c := NewCache(plain)
	c.keep(&cached[Definition]{key: cacheKey{"a/b", "c"}, version: "1", bytes: 10})
	for _, other := range []cacheKey{{"a", "b/c"}, {"a/b", "d"}, {"a/b/c", ""}} {
		if _, ok := c.have(other, "1"); ok {
			t.Errorf("%v has what belongs to another", other)
		}
	}
	if _, ok := c.have(cacheKey{"a/b", "c"}, "2"); ok {
		t.Error("an old version was taken")
	}
	for i := range 2 * maxCached {
		c.keep(&cached[Definition]{key: cacheKey{files.Space(rune(i)), ""}, version: "1", bytes: maxCachedBytes / 500})
	}
	if c.order.Len() > 500 || len(c.of) != c.order.Len() || c.bytes > maxCachedBytes {
		t.Errorf("%d entries, %d bytes", c.order.Len(), c.bytes)
	}
}
