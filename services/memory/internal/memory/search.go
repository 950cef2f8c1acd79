package memory

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/index/pool"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

const (
	defaultHits    = 10
	maxHits        = 100
	defaultSnippet = 320
	maxSnippet     = 4096
	// maxPageBytes bounds the snippets of one page, so that an answer fits into a model's context.
	maxPageBytes  = 64 << 10
	maxHighlights = 64
	// rerankWindow is how many of the best documents by match are ordered anew when age counts.
	rerankWindow = 200
	// maxOffset bounds how deep pages go.
	maxOffset = 10_000
)

// SearchRequest is a question.
type SearchRequest struct {
	Query  string
	Mode   index.Mode
	Filter index.Filter
	// Paths are globs.
	Paths       []string
	HalfLife    time.Duration
	Size        int
	Token       string
	SnippetSize int
	// RequireCurrent fails rather than answer from an index that is behind.
	RequireCurrent bool
	Explain        bool
}

// SearchResult is one page.
type SearchResult struct {
	Hits      []Hit
	Next      string
	Total     int64
	Freshness Freshness
	Cut       bool
	ByPrefix  bool
}

// Hit is one document that was found.
type Hit struct {
	Doc        index.Doc
	Fact       *Fact
	Score      float64
	Snippet    string
	Truncated  bool
	Highlights []text.Span
	Terms      []index.TermScore
	Duplicates int
}

// Search finds facts and text of memory files.
func (s *Service) Search(ctx context.Context, req SearchRequest) (SearchResult, error) {
	c, err := callOf(ctx)
	if err != nil {
		return SearchResult{}, err
	}
	return s.search(ctx, c.memoryIndex(), req, s.sync)
}

type syncFunc func(ctx context.Context, l *pool.Lease, key string, within time.Duration) (Freshness, error)

// search brings an index up to date and searches it.
func (s *Service) search(ctx context.Context, key string, req SearchRequest, sync syncFunc) (r SearchResult, err error) {
	q, globs, err := prepare(&req)
	if err != nil {
		return r, err
	}
	within := s.opts.SyncTime
	if req.RequireCurrent {
		within = 0
	}
	err = s.pool.Use(ctx, key, func(l *pool.Lease) error {
		fresh, err := sync(ctx, l, key, within)
		if err != nil {
			if req.RequireCurrent && canceled(err) {
				return errdefs.New(errdefs.ErrUnavailable, Domain, ReasonIndexBehind, "the index could not be brought up to date in time: %w", err)
			}
			return err
		}
		if len(globs) > 0 {
			if q.Filter.Sources, err = sourcesMatching(ctx, l, globs); err != nil {
				return err
			}
		}
		r, err = find(ctx, l, q, req, s.now())
		r.Freshness = fresh
		return err
	})
	if err != nil {
		return SearchResult{}, public(err, key)
	}
	r.Cut = q.Text.Cut
	return r, nil
}

// prepare reads and checks the request and fills in its defaults.
func prepare(req *SearchRequest) (index.Query, []*fsops.Glob, error) {
	q := index.Query{Text: text.ParseQuery(req.Query), Mode: req.Mode, Filter: req.Filter, Explain: req.Explain}
	if q.Text.Empty() {
		return q, nil, invalid(ReasonQueryEmpty, "the query has nothing that could be looked for").With("query", clipped(req.Query))
	}
	if req.Size <= 0 {
		req.Size = defaultHits
	}
	if req.SnippetSize <= 0 {
		req.SnippetSize = defaultSnippet
	}
	req.Size, req.SnippetSize = min(req.Size, maxHits), min(req.SnippetSize, maxSnippet)
	var globs []*fsops.Glob
	for _, pattern := range req.Paths {
		g, err := fsops.CompileGlob(pattern)
		if err != nil {
			return q, nil, invalid(ReasonPatternInvalid, "the path pattern can't be used: %w", err).With("pattern", clipped(pattern))
		}
		globs = append(globs, g)
	}
	return q, globs, nil
}

// sourcesMatching gives the sources that match one of the globs; never nil.
func sourcesMatching(ctx context.Context, ix index.Index, globs []*fsops.Glob) ([]string, error) {
	revisions, err := ix.Revisions(ctx)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for name := range revisions {
		if slices.ContainsFunc(globs, func(g *fsops.Glob) bool { return g.Match(fsops.PathOf(name)) }) {
			out = append(out, name)
		}
	}
	return out, nil
}

// pageToken is where a page ended.
type pageToken struct {
	Offset   int    `json:"o"`
	ByPrefix bool   `json:"p,omitempty"`
	Request  string `json:"r"`
}

// find searches the index for one page.
func find(ctx context.Context, ix index.Index, q index.Query, req SearchRequest, now time.Time) (r SearchResult, err error) {
	print := requestPrint(req)
	var at pageToken
	if req.Token != "" {
		data, err := base64.RawURLEncoding.DecodeString(req.Token)
		if err != nil || json.Unmarshal(data, &at) != nil || at.Request != print || at.Offset < 0 || at.Offset > maxOffset {
			return r, invalid(ReasonTokenInvalid, "the page token is not one of this request").With("field", "page_token")
		}
	}
	q.Prefix = at.ByPrefix
	fetch := func(offset, limit int) (index.Result, error) {
		q.Offset, q.Limit = offset, limit
		return ix.Search(ctx, q)
	}
	if req.HalfLife > 0 {
		fetch = reranked(fetch, req.HalfLife, now)
	}
	res, err := fetch(at.Offset, req.Size+1)
	if err != nil {
		return r, err
	}
	if res.Total == 0 && req.Token == "" && !q.Prefix {
		q.Prefix = true
		if res, err = fetch(0, req.Size+1); err != nil {
			return r, err
		}
	}
	r.Total, r.ByPrefix = res.Total, q.Prefix && res.Total > 0
	p := page{req: req, query: q.Text, byHash: map[string]int{}}
	offset, full := at.Offset, false
	for len(res.Hits) > 0 && !full {
		for _, h := range res.Hits {
			added, err := p.add(h)
			if err != nil {
				return r, err
			}
			if !added {
				full = true
				break
			}
			offset++
		}
		if full || int64(offset) >= res.Total || offset >= maxOffset {
			break
		}
		if res, err = fetch(offset, req.Size+1); err != nil {
			return r, err
		}
	}
	r.Hits = p.hits
	if int64(offset) < r.Total && offset < maxOffset && full {
		data, err := json.Marshal(pageToken{offset, q.Prefix, print})
		if err != nil {
			return r, fmt.Errorf("memory: page token: %w", err)
		}
		r.Next = base64.RawURLEncoding.EncodeToString(data)
	}
	return r, nil
}

// requestPrint binds a token to its request.
func requestPrint(req SearchRequest) string {
	req.Token, req.Size, req.RequireCurrent = "", 0, false
	data, err := json.Marshal(req)
	if err != nil {
		panic(err) // a struct of plain fields
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}

// reranked orders the best documents anew, by match and age.
func reranked(fetch func(offset, limit int) (index.Result, error), halfLife time.Duration, now time.Time) func(offset, limit int) (index.Result, error) {
	return func(offset, limit int) (index.Result, error) {
		res, err := fetch(0, rerankWindow)
		if err != nil {
			return res, err
		}
		for i := range res.Hits {
			age := max(0, now.Sub(res.Hits[i].Doc.Time))
			// Half of the score is safe from age: an old fact that matches well is better than a new one that hardly does.
			res.Hits[i].Score *= 0.5 + 0.5*math.Exp2(-float64(age)/float64(halfLife))
		}
		slices.SortStableFunc(res.Hits, func(a, b index.Hit) int { return cmp.Compare(b.Score, a.Score) })
		res.Total = int64(len(res.Hits))
		res.Hits = res.Hits[min(offset, len(res.Hits)):min(offset+limit, len(res.Hits))]
		return res, nil
	}
}

// page collects hits.
type page struct {
	req    SearchRequest
	query  text.Query
	hits   []Hit
	byHash map[string]int
	bytes  int
}

// add takes a hit, unless the page is full. What says the same as a hit before is counted there.
func (p *page) add(h index.Hit) (bool, error) {
	if at, ok := p.byHash[h.Doc.Hash]; ok && h.Doc.Hash != "" {
		p.hits[at].Duplicates++
		return true, nil
	}
	if len(p.hits) == p.req.Size {
		return false, nil
	}
	matches := text.Matches(h.Doc.Text, p.query, maxHighlights)
	snippet, within, cut := text.Snippet(h.Doc.Text, matches, p.req.SnippetSize)
	if len(p.hits) > 0 && p.bytes+len(snippet) > maxPageBytes {
		return false, nil
	}
	hit := Hit{Doc: h.Doc, Score: h.Score, Snippet: snippet, Truncated: cut, Highlights: within, Terms: h.Terms}
	if len(h.Doc.Meta) > 0 && h.Doc.Kind != index.KindMessage {
		f, err := factOf(h.Doc)
		if err != nil {
			return false, err
		}
		hit.Fact = &f
	}
	p.byHash[h.Doc.Hash] = len(p.hits)
	p.bytes += len(snippet)
	p.hits = append(p.hits, hit)
	return true, nil
}

// GetFact finds a fact by its id.
func (s *Service) GetFact(ctx context.Context, id string) (f Fact, err error) {
	c, err := callOf(ctx)
	if err != nil {
		return f, err
	}
	key := c.memoryIndex()
	err = s.pool.Use(ctx, key, func(l *pool.Lease) error {
		if _, err := s.sync(ctx, l, key, 0); err != nil {
			return err
		}
		found, err := l.Lookup(ctx, index.FieldFactID, id, 1)
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return notFound(ReasonFactNotFound, "there is no fact of that id").With("fact_id", id)
		}
		f, err = factOf(found[0])
		return err
	})
	return f, public(err, key)
}

// Rebuild throws the index of the bucket, or of the threads, away and builds it again.
func (s *Service) Rebuild(ctx context.Context, threads bool) (st index.Stats, err error) {
	c, err := callOf(ctx)
	if err != nil {
		return st, err
	}
	key, sync := c.memoryIndex(), syncFunc(s.sync)
	if threads {
		if err := s.requireThreads(); err != nil {
			return st, err
		}
		if key, err = c.threadIndex(); err != nil {
			return st, err
		}
		sync = s.threadSync(c)
	}
	if err := s.pool.Destroy(ctx, key); err != nil {
		return st, public(err, key)
	}
	err = s.pool.Use(ctx, key, func(l *pool.Lease) error {
		if _, err := sync(ctx, l, key, 0); err != nil {
			return err
		}
		st, err = l.Stats(ctx)
		return err
	})
	if errors.Is(err, index.ErrDamaged) {
		s.status.set(key, func(k *keyStatus) { k.indexErr = errorText(err) })
	}
	return st, public(err, key)
}

func clipped(s string) string {
	if len(s) > 64 {
		return fmt.Sprintf("%.64s…", s)
	}
	return s
}
