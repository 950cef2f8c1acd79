package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// model is what a bucket must hold: the plainest filesystem there is.
type model map[string]string

func (m model) isDir(p string) bool {
	for name := range m {
		if strings.HasPrefix(name, p+"/") {
			return true
		}
	}
	return false
}

// blocked says whether a file stands above the path.
func (m model) blocked(p string) bool {
	for i := strings.LastIndexByte(p, '/'); i > 0; i = strings.LastIndexByte(p[:i], '/') {
		if _, ok := m[p[:i]]; ok {
			return true
		}
	}
	return false
}

func (m model) below(p string) []string {
	var out []string
	for name := range m {
		if name == p || strings.HasPrefix(name, p+"/") {
			out = append(out, name)
		}
	}
	return out
}

// randomOperations runs the same random operations on a bucket over a template and on the model, and compares outcome and content.
func randomOperations(t testkit.T, factory Factory) {
	for seed := range uint64(4) {
		runRandom(t, factory, seed, 150)
	}
}

func runRandom(t testkit.T, factory Factory, seed uint64, steps int) {
	r := rand.New(rand.NewPCG(seed, 1))
	store := factory(t)
	template := user{T: t, store: store, ctx: t.Context(), View: files.NewView(store, files.TemplateSpace("default", "coder"), nil, files.Limits{}, nil)}
	m := model{}
	for _, name := range []string{"a", "b/a", "b/b", "c/a/b"} {
		template.write(name, "template")
		m[name] = "template"
	}
	u := as(t, store, bucket, files.Lower{Layer: files.LayerTemplate, Tree: store.Space(template.Space())})
	var log []string
	for step := range steps {
		p, q := randomPath(r), randomPath(r)
		content := strings.Repeat(fmt.Sprint(step), r.IntN(40))
		var op string
		var got, want error
		_, exists := m[p]
		switch r.IntN(7) {
		case 0, 1:
			op = "write " + p
			_, got = u.tryWrite(files.Write{Path: path(p)}, content)
			if want = m.mayWrite(p); want == nil {
				m[p] = content
			}
		case 2:
			op = "create " + p
			_, got = u.tryWrite(files.Write{Path: path(p), Mode: files.Create}, content)
			if want = m.mayWrite(p); exists || want == nil && m.isDir(p) {
				want = errAny
			}
			if want == nil {
				m[p] = content
			}
		case 3:
			op = "append " + p
			_, got = u.Append(u.ctx, call, path(p), []byte(content), false)
			if want = m.mayWrite(p); want == nil {
				m[p] += content
			}
		case 4:
			op = "delete " + p
			_, got = u.Delete(u.ctx, call, files.Delete{Path: path(p), Recursive: true})
			gone := m.below(p)
			if len(gone) == 0 {
				want = errAny
			}
			for _, name := range gone {
				delete(m, name)
			}
		case 5:
			op = "move " + p + " " + q
			_, got = u.Move(u.ctx, call, files.Move{From: path(p), To: path(q), Overwrite: true})
			want = m.move(p, q)
		case 6:
			op = "edit " + p
			_, got = u.Edit(u.ctx, call, path(p), []fsops.Replacement{{Old: "t", New: "T" + content, All: true}}, "")
			if !exists || !strings.Contains(m[p], "t") {
				want = errAny
			} else {
				m[p] = strings.ReplaceAll(m[p], "t", "T"+content)
			}
		}
		log = append(log, op)
		if (got == nil) != (want == nil) || got != nil && errdefs.ReasonOf(got) == "" {
			t.Fatalf("seed %d: %s gave %v, the model says %v", seed, strings.Join(log, "; "), got, want)
		}
	}
	u.compare(m, fmt.Sprintf("seed %d: %s", seed, strings.Join(log, "; ")))
}

// compare checks that the view holds exactly what the model holds.
func (u user) compare(m model, history string) {
	u.Helper()
	var seen []string
	for _, name := range u.list("", true) {
		if !strings.HasSuffix(name, "/") {
			seen = append(seen, name)
		}
	}
	want := slices.Sorted(maps.Keys(m))
	if !slices.Equal(seen, want) {
		u.Fatalf("%s\nseen %q\nwant %q", history, seen, want)
	}
	for name, content := range m {
		if got := u.read(name); got != content {
			u.Fatalf("%s\n%q holds %s, want %s", history, name, short(got), short(content))
		}
	}
}

var errAny = fmt.Errorf("an error")

func (m model) mayWrite(p string) error {
	if m.isDir(p) || m.blocked(p) {
		return errAny
	}
	return nil
}

func (m model) move(p, q string) error {
	from := m.below(p)
	_, toFile := m[q]
	_, fromFile := m[p]
	switch {
	case len(from) == 0:
		return errAny
	case p == q:
		return nil
	case strings.HasPrefix(q, p+"/"), m.blocked(q), m.isDir(q), toFile && !fromFile:
		return errAny
	}
	for _, name := range from {
		content := m[name]
		delete(m, name)
		m[q+strings.TrimPrefix(name, p)] = content
	}
	return nil
}

// randomPath is one of a few, so that operations meet.
func randomPath(r *rand.Rand) string {
	names := []string{"a", "b", "c"}
	p := names[r.IntN(3)]
	for range r.IntN(3) {
		p += "/" + names[r.IntN(3)]
	}
	return p
}
