package composite_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/composite"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// outage is a process that dies: after so many more calls of stores, each one fails.
type outage struct{ left atomic.Int64 }

var errDead = errdefs.New(errdefs.ErrUnavailable, "test", "", "the process is dead")

func (o *outage) call() error {
	if o.left.Add(-1) < 0 {
		return errDead
	}
	return nil
}

// mortal is a store of a process that dies. An update may be lost, or done without anybody hearing of it.
type mortal struct {
	files.Store
	out *outage
}

func (m mortal) Space(space files.Space) files.Own { return mortalOwn{m.Store.Space(space), m.out} }

func (m mortal) Update(ctx context.Context, space files.Space, e files.Effect, f func(context.Context, files.Tx) ([]byte, error)) (files.Updated, error) {
	if err := m.out.call(); err != nil {
		return files.Updated{}, err
	}
	out, err := m.Store.Update(ctx, space, e, f)
	if dead := m.out.call(); dead != nil {
		return files.Updated{}, dead
	}
	return out, err
}

func (m mortal) Stage(ctx context.Context, r io.Reader, limit int64) (files.Staged, error) {
	if err := m.out.call(); err != nil {
		return nil, err
	}
	return m.Store.Stage(ctx, r, limit)
}

type mortalOwn struct {
	files.Own
	out *outage
}

func (m mortalOwn) Get(ctx context.Context, paths ...fsops.Path) ([]files.Node, error) {
	if err := m.out.call(); err != nil {
		return nil, err
	}
	return m.Own.Get(ctx, paths...)
}

func (m mortalOwn) Children(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	if err := m.out.call(); err != nil {
		return files.Page{}, err
	}
	return m.Own.Children(ctx, dir, after, limit)
}

func (m mortalOwn) Below(ctx context.Context, dir fsops.Path, after string, limit int) (files.Page, error) {
	if err := m.out.call(); err != nil {
		return files.Page{}, err
	}
	return m.Own.Below(ctx, dir, after, limit)
}

func (m mortalOwn) Open(ctx context.Context, n files.Node) (files.Content, error) {
	if err := m.out.call(); err != nil {
		return nil, err
	}
	return m.Own.Open(ctx, n)
}

// bench is two stores with a template, seen by processes that die and by ones that don't.
type bench struct {
	*testing.T
	alive *composite.Store
	inner []files.Store
	cfg   composite.Config
}

func newBench(t *testing.T, pairs ...string) *bench {
	b := &bench{T: t, inner: []files.Store{openSQLite(t), openSQLite(t)}}
	b.cfg = composite.Config{
		Default: named("first", b.inner[0]), Others: []composite.Named{named("second", b.inner[1])}, Routes: routes(pairs...), SpoolDir: t.TempDir(),
	}
	b.alive = openIn(t, b.cfg)
	t.Cleanup(func() {
		if err := b.alive.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return b
}

// dying is the same store in a process that dies after some calls.
func (b *bench) dying(calls int64) *composite.Store {
	b.Helper()
	out := &outage{}
	out.left.Store(calls)
	cfg := b.cfg
	cfg.Default.Store = mortal{b.inner[0], out}
	cfg.Others = []composite.Named{named("second", mortal{b.inner[1], out})}
	s, err := composite.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	return s
}

func (b *bench) view(s *composite.Store, space files.Space) *files.View {
	template := files.Lower{Layer: files.LayerTemplate, Tree: s.Space(files.TemplateSpace("t", "agent"))}
	return files.NewView(s, space, []files.Lower{template}, files.Limits{}, time.Now)
}

func user(name string) files.Space {
	return files.BucketSpace(identity.Bucket{Tenant: "t", Scope: identity.ScopeUser, Agent: "agent", User: name})
}

func (b *bench) write(v *files.View, content map[string]string) {
	b.Helper()
	b.writeTo(b.alive, v, content)
}

func (b *bench) writeTo(s files.Store, v *files.View, content map[string]string) {
	b.Helper()
	for _, name := range slices.Sorted(maps.Keys(content)) {
		staged, err := s.Stage(b.Context(), strings.NewReader(content[name]), 0)
		if err == nil {
			_, err = v.Write(b.Context(), files.Call{Author: "ana"}, files.Write{Path: fsops.PathOf(name)}, staged)
		}
		if err != nil {
			b.Fatalf("write %s: %v", name, err)
		}
	}
}

// holds returns the files of a view.
func (b *bench) holds(v *files.View) map[string]string {
	b.Helper()
	out := map[string]string{}
	for token := ""; ; {
		page, err := v.List(b.Context(), fsops.Path{}, true, 100, token)
		if err != nil {
			b.Fatal(err)
		}
		for _, e := range page.Entries {
			if e.Kind != files.KindFile {
				continue
			}
			_, data, err := v.ReadAll(b.Context(), e.Path, 64<<20)
			if err != nil {
				b.Fatal(err)
			}
			out[e.Path.String()] = string(data)
		}
		if token = page.Next; token == "" {
			return out
		}
	}
}

var allBytes = func() string {
	var s strings.Builder
	for i := range 256 {
		s.WriteByte(byte(i))
	}
	return s.String()
}()

// crashes lets a change die after each number of calls that it makes, looks at what there is, and repeats it.
func crashes(t *testing.T, b *bench, before map[string]string, change func(*files.View, files.Call) error, between func(map[string]string) error, after map[string]string) {
	t.Helper()
	call := files.Call{Author: "ana", Effect: files.Effect{ID: "e1", Hash: "h"}}
	deaths := 0
	for n := int64(0); ; n++ {
		space := user(fmt.Sprint(t.Name(), n))
		alive := b.view(b.alive, space)
		b.write(alive, before)
		err := change(b.view(b.dying(n), space), call)
		if err != nil {
			if !errors.Is(err, errDead) {
				t.Fatalf("after %d calls: %v", n, err)
			}
			deaths++
			if problem := between(b.holds(alive)); problem != nil {
				t.Fatalf("dead after %d calls: %v", n, problem)
			}
		}
		for range 2 {
			if err := change(alive, call); err != nil {
				t.Fatalf("the repeat after %d calls: %v", n, err)
			}
			if got := b.holds(alive); !maps.Equal(got, after) {
				t.Fatalf("the repeat after %d calls leaves %q, want %q", n, slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(after)))
			}
		}
		if err == nil {
			t.Logf("died at %d places", deaths)
			return
		}
	}
}

// A move across stores that dies at any place loses nothing, and a repeat finishes it.
func TestMoveSurvivesDeath(t *testing.T) {
	b := newBench(t, "archive", "second", "d/e", "second")
	template := files.NewView(b.alive, files.TemplateSpace("t", "agent"), nil, files.Limits{}, time.Now)
	b.write(template, map[string]string{"d/low.txt": "template", "d/bin": "shadowed"})
	big := strings.Repeat("large\x00", 60_000)
	before := map[string]string{"d/empty": "", "d/bin": allBytes, "d/big": big, "d/e/in.txt": "in"}
	after := map[string]string{}
	for name, content := range before {
		if rest, ok := strings.CutPrefix(name, "d/"); ok {
			after["archive/x/"+rest] = content
		}
	}
	after["archive/x/low.txt"] = "template"
	crashes(t, b, before, func(v *files.View, call files.Call) error {
		out, err := v.Move(t.Context(), call, files.Move{From: fsops.PathOf("d"), To: fsops.PathOf("archive/x")})
		if err == nil && out.Files != 5 {
			t.Errorf("moved %d files, want 5", out.Files)
		}
		return err
	}, func(got map[string]string) error {
		for name, content := range after {
			old := strings.Replace(name, "archive/x/", "d/", 1)
			if got[name] != content && got[old] != content {
				return fmt.Errorf("%s is nowhere, there is %q", name, slices.Sorted(maps.Keys(got)))
			}
		}
		return nil
	}, after)
}

func TestMoveOverSurvivesDeath(t *testing.T) {
	b := newBench(t, "archive", "second")
	before := map[string]string{"f": "new", "archive/f": "old"}
	crashes(t, b, before, func(v *files.View, call files.Call) error {
		out, err := v.Move(t.Context(), call, files.Move{From: fsops.PathOf("f"), To: fsops.PathOf("archive/f"), Overwrite: true})
		if err == nil && (out.Files != 1 || out.Entry.Path.String() != "archive/f" || out.Entry.Size != 3) {
			t.Errorf("moved %+v", out)
		}
		return err
	}, func(got map[string]string) error {
		if got["f"] != "new" && got["archive/f"] != "new" {
			return fmt.Errorf("the file is lost: %q", got)
		}
		return nil
	}, map[string]string{"archive/f": "new"})
}

// A deletion over two stores that dies shows nothing of the template in place of what it deleted, and a repeat finishes it.
func TestDeleteSurvivesDeath(t *testing.T) {
	b := newBench(t, "d/e", "second")
	template := files.NewView(b.alive, files.TemplateSpace("t", "agent"), nil, files.Limits{}, time.Now)
	b.write(template, map[string]string{"d/a": "template", "d/e/a": "template", "d/e/low": "template"})
	before := map[string]string{"d/a": "1", "d/b": "2", "d/e/a": "3", "d/e/b": "4", "x": "5"}
	crashes(t, b, before, func(v *files.View, call files.Call) error {
		out, err := v.Delete(t.Context(), call, files.Delete{Path: fsops.PathOf("d"), Recursive: true})
		if err == nil && out.Files != 5 {
			t.Errorf("deleted %d files, want 5", out.Files)
		}
		return err
	}, func(got map[string]string) error {
		for name, content := range got {
			if before[name] != content && name != "d/e/low" {
				return fmt.Errorf("%s holds %q", name, content)
			}
		}
		return nil
	}, map[string]string{"x": "5"})
}

// A write to a routed path happens once, whenever the process dies.
func TestWritesSurviveDeath(t *testing.T) {
	for _, name := range []string{"r/log", "log"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, "r", "second")
			crashes(t, b, map[string]string{name: "begin\n"}, func(v *files.View, call files.Call) error {
				out, err := v.Append(t.Context(), call, fsops.PathOf(name), []byte("line\n"), true)
				if err == nil && out.Offset != 6 {
					t.Errorf("appended at %d", out.Offset)
				}
				return err
			}, func(got map[string]string) error {
				if got[name] != "begin\n" && got[name] != "begin\nline\n" {
					return fmt.Errorf("half an append: %q", got)
				}
				return nil
			}, map[string]string{name: "begin\nline\n"})
		})
	}
}
