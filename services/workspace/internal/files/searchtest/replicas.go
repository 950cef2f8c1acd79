package searchtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Open opens one more store over the same data, which closes with the test unless that was done before.
type Open func() files.Store

// RunReplicas changes a bucket at random through n stores over the same data, each of which is opened anew now and then, and compares each search with what the bucket
// holds: an index must never hide a match, nor show what is not seen.
func RunReplicas(t testkit.T, n int, place func(testkit.T) Open) {
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t testkit.T) { runReplicas(t, n, place(t), rand.New(rand.NewPCG(seed, 7))) })
	}
}

const (
	replicaSteps    = 250
	replicaSpace    = files.Space("default/user/coder/ana")
	replicaTemplate = files.Space("default/template/coder")
)

type replicas struct {
	testkit.T
	open   Open
	stores []files.Store
	random *rand.Rand
	seen   map[string]string // content by path
}

func runReplicas(t testkit.T, n int, open Open, random *rand.Rand) {
	r := &replicas{T: t, open: open, random: random, seen: map[string]string{}}
	for range n {
		r.stores = append(r.stores, open())
	}
	template := files.NewView(r.stores[0], replicaTemplate, nil, files.Limits{}, time.Now)
	neighbour := files.NewView(r.stores[0], replicaSpace+"2", nil, files.Limits{}, time.Now)
	for i := range 6 {
		content := r.text()
		r.must(write(r, r.stores[0], template, name(i), content))
		r.seen[name(i)] = content
		r.must(write(r, r.stores[0], neighbour, name(i), "needle of another bucket"))
	}
	for range replicaSteps {
		r.step()
		r.search()
	}
}

func name(i int) string { return fmt.Sprintf("d%d/f%d.txt", i%3, i) }

var fragments = strings.Split("needle|Needle hay|hay|\n|\nNEEDLE\n|x|é|e\u0301|\u212Aelvin|보고|서|zzz|the quick brown fox|\r\n| ", "|")

func (r *replicas) text() string {
	var b strings.Builder
	for range r.random.IntN(12) {
		b.WriteString(fragments[r.random.IntN(len(fragments))])
	}
	if r.random.IntN(40) == 0 {
		b.WriteString(strings.Repeat("a line of many words that are all alike\n", 8000)) // over the size that has a signature
	}
	return b.String()
}

func (r *replicas) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *replicas) view(store files.Store) *files.View {
	return files.NewView(store, replicaSpace, []files.Lower{{Layer: files.LayerTemplate, Tree: store.Space(replicaTemplate)}}, files.Limits{}, time.Now)
}

func write(r *replicas, store files.Store, v *files.View, name, content string) error {
	staged, err := store.Stage(r.Context(), strings.NewReader(content), 0)
	if err != nil {
		return err
	}
	_, err = v.Write(r.Context(), files.Call{Author: "ana"}, files.Write{Path: fsops.PathOf(name)}, staged)
	return err
}

// step changes something.
func (r *replicas) step() {
	which := r.random.IntN(len(r.stores))
	store := r.stores[which]
	v, call := r.view(store), files.Call{Author: "ana"}
	p, q := name(r.random.IntN(12)), name(r.random.IntN(12))
	_, exists := r.seen[p]
	switch r.random.IntN(8) {
	case 0, 1, 2:
		content := r.text()
		r.must(write(r, store, v, p, content))
		r.seen[p] = content
	case 3, 4:
		data := r.text()
		_, err := v.Append(r.Context(), call, fsops.PathOf(p), []byte(data), false)
		r.must(err)
		r.seen[p] += data
	case 5:
		if exists && p != q {
			_, err := v.Move(r.Context(), call, files.Move{From: fsops.PathOf(p), To: fsops.PathOf(q), Overwrite: true})
			r.must(err)
			r.seen[q] = r.seen[p]
			delete(r.seen, p)
		}
	case 6:
		if exists {
			_, err := v.Delete(r.Context(), call, files.Delete{Path: fsops.PathOf(p)})
			r.must(err)
			delete(r.seen, p)
		}
	case 7:
		if r.random.IntN(5) == 0 {
			r.must(store.Close())
			r.stores[which] = r.open()
		}
	}
}

// search compares one search through one of the stores.
func (r *replicas) search() {
	pattern := []string{"needle", "Needle hay", "fox", "é", "kelvin", "보고서", "alike", "zzzneedle", "(fox|zzz)\\s?needle", "^NEEDLE$"}[r.random.IntN(10)]
	req := fsops.GrepRequest{Pattern: pattern, Regex: strings.ContainsAny(pattern, "(^"), IgnoreCase: r.random.IntN(2) == 0}
	g, err := fsops.CompileGrep(req)
	r.must(err)
	var want, got []string
	for _, p := range slices.Sorted(maps.Keys(r.seen)) {
		_, err := g.SearchBytes([]byte(r.seen[p]), func(h fsops.Hit) error {
			want = append(want, fmt.Sprintf("%s:%d:%d:%s", p, h.Line, h.Column, h.Text))
			return nil
		})
		r.must(err)
	}
	end, err := r.view(r.stores[r.random.IntN(len(r.stores))]).Grep(r.Context(), files.Grep{Search: g, MaxMatches: 1 << 20, MaxPerFile: 1 << 20, MaxTime: time.Minute}, func(h files.Hit) error {
		got = append(got, fmt.Sprintf("%s:%d:%d:%s", h.Path, h.Line, h.Column, h.Text))
		return nil
	})
	r.must(err)
	if !slices.Equal(got, want) || end.Reason != "" {
		r.Fatalf("%+v: got\n%s\nwant\n%s\n%+v", req, strings.Join(got, "\n"), strings.Join(want, "\n"), end)
	}
}
