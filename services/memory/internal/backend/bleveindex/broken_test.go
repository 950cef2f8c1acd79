package bleveindex_test

import (
	"context"
	"testing"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/memory/internal/backend/bleveindex"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/index/indextest"
)

// broken is a backend with a fault: what it is asked is changed before the real one sees it.
type broken struct {
	index.Backend
	key    func(string) string
	batch  func(*index.Batch)
	query  func(*index.Query)
	result func(*index.Result)
	keep   bool // Destroy does nothing
}

func (b broken) Open(ctx context.Context, key string) (index.Index, error) {
	if b.key != nil {
		key = b.key(key)
	}
	ix, err := b.Backend.Open(ctx, key)
	return brokenIndex{ix, b}, err
}

func (b broken) Destroy(ctx context.Context, key string) error {
	if b.keep {
		return nil
	}
	return b.Backend.Destroy(ctx, key)
}

type brokenIndex struct {
	index.Index
	faults broken
}

func (ix brokenIndex) Apply(ctx context.Context, b index.Batch) error {
	if ix.faults.batch != nil {
		ix.faults.batch(&b)
	}
	return ix.Index.Apply(ctx, b)
}

func (ix brokenIndex) Search(ctx context.Context, q index.Query) (index.Result, error) {
	if ix.faults.query != nil {
		ix.faults.query(&q)
	}
	r, err := ix.Index.Search(ctx, q)
	if ix.faults.result != nil && err == nil {
		ix.faults.result(&r)
	}
	return r, err
}

// TestSuiteNoticesFaults breaks the backend in the ways that matter, and expects the suite to fail for each; for the backend as
// it is, it must pass.
func TestSuiteNoticesFaults(t *testing.T) {
	for name, b := range map[string]broken{
		"none": {},
		"a document is dropped": {batch: func(b *index.Batch) {
			if len(b.Put) > 1 {
				b.Put = b.Put[1:]
			}
		}},
		"deletions are ignored":        {batch: func(b *index.Batch) { b.Delete = nil }},
		"states of sources are lost":   {batch: func(b *index.Batch) { b.Sources = nil }},
		"filters are ignored":          {query: func(q *index.Query) { q.Filter = index.Filter{} }},
		"one filter is ignored":        {query: func(q *index.Query) { q.Filter.Sessions = nil }},
		"the mode is ignored":          {query: func(q *index.Query) { q.Mode = index.ModeAny }},
		"every page is the first":      {query: func(q *index.Query) { q.Offset = 0 }},
		"explanations are left out":    {query: func(q *index.Query) { q.Explain = false }},
		"a hit is dropped":             {result: func(r *index.Result) { r.Hits = r.Hits[:max(0, len(r.Hits)-1)] }},
		"users of an agent are mixed":  {key: func(key string) string { return key[:min(len(key), len("default/user/coder"))] }},
		"destroyed indexes stay there": {keep: true},
	} {
		t.Run(name, func(t *testing.T) {
			failures := testkit.Failures(func(t testkit.T) {
				indextest.Run(t, indextest.Traits{Durable: true}, func(tb testing.TB) index.Backend {
					b := b
					b.Backend = bleveindex.OnDisk(tb.TempDir())
					return b
				})
			})
			if (len(failures) == 0) != (name == "none") {
				t.Errorf("the suite finds %q", failures)
			}
		})
	}
}
