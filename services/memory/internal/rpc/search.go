package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/memory"
)

// Search searches facts and memory files.
func (s *Server) Search(ctx context.Context, req *memoryv1.SearchRequest) (*memoryv1.SearchResponse, error) {
	r, err := s.memory.Search(ctx, searchIn(req))
	if err != nil {
		return nil, err
	}
	return &memoryv1.SearchResponse{
		Hits: hitsOut(r.Hits), NextPageToken: r.Next, TotalMatches: r.Total, Freshness: freshnessOut(r.Freshness), QueryCut: r.Cut, ByPrefix: r.ByPrefix,
	}, nil
}

func searchIn(req *memoryv1.SearchRequest) memory.SearchRequest {
	return memory.SearchRequest{
		Query: req.GetQuery(), Mode: modeIn(req.GetMode()), Paths: req.GetFilter().GetPaths(), Filter: filterIn(req.GetFilter()),
		HalfLife: req.GetRanking().GetRecencyHalfLife().AsDuration(), Size: int(req.GetPageSize()), Token: req.GetPageToken(),
		SnippetSize: int(req.GetSnippetBytes()), RequireCurrent: req.GetMinCursor() != "", Explain: req.GetExplain(),
	}
}

// SearchThreads searches messages.
func (s *Server) SearchThreads(ctx context.Context, req *memoryv1.SearchThreadsRequest) (*memoryv1.SearchThreadsResponse, error) {
	q := memory.SearchRequest{
		Query: req.GetQuery(), Mode: modeIn(req.GetMode()), Filter: filterIn(req.GetFilter()),
		HalfLife: req.GetRanking().GetRecencyHalfLife().AsDuration(), Size: int(req.GetPageSize()), Token: req.GetPageToken(),
		SnippetSize: int(req.GetSnippetBytes()), RequireCurrent: req.GetRequireCurrent(), Explain: req.GetExplain(),
	}
	r, err := s.memory.SearchThreads(ctx, q)
	if err != nil {
		return nil, err
	}
	return &memoryv1.SearchThreadsResponse{
		Hits: hitsOut(r.Hits), NextPageToken: r.Next, TotalMatches: r.Total, Freshness: freshnessOut(r.Freshness), QueryCut: r.Cut, ByPrefix: r.ByPrefix,
	}, nil
}

func modeIn(m memoryv1.MatchMode) index.Mode {
	switch m {
	case memoryv1.MatchMode_MATCH_MODE_ALL:
		return index.ModeAll
	case memoryv1.MatchMode_MATCH_MODE_PHRASE:
		return index.ModePhrase
	}
	return index.ModeAny
}

func filterIn(f *memoryv1.SearchFilter) index.Filter {
	out := index.Filter{Sessions: f.GetSessions(), Speakers: f.GetSpeakers()}
	for _, k := range f.GetKinds() {
		out.Kinds = append(out.Kinds, index.Kind(k))
	}
	for _, k := range f.GetFactKinds() {
		out.FactKinds = append(out.FactKinds, uint8(kindIn(k)))
	}
	for _, t := range f.GetTrusts() {
		out.Trusts = append(out.Trusts, uint8(t))
	}
	if f.GetStartTime() != nil {
		out.Start = f.GetStartTime().AsTime()
	}
	if f.GetEndTime() != nil {
		out.End = f.GetEndTime().AsTime()
	}
	return out
}

func hitsOut(hits []memory.Hit) []*memoryv1.Hit {
	var out []*memoryv1.Hit
	for _, h := range hits {
		hit := &memoryv1.Hit{
			Kind: memoryv1.DocumentKind(h.Doc.Kind), Line: int64(h.Doc.Line), EndLine: int64(h.Doc.EndLine), Snippet: h.Snippet, Truncated: h.Truncated,
			Score: h.Score, Headings: h.Doc.Headings, Session: h.Doc.Session, Seq: h.Doc.Seq, Speaker: h.Doc.Speaker, Time: timeOut(h.Doc.Time),
			Duplicates: int32(h.Duplicates), Trust: memoryv1.Trust(h.Doc.Trust),
		}
		if h.Doc.Kind != index.KindMessage {
			hit.Path = h.Doc.Source
		}
		for _, s := range h.Highlights {
			hit.Highlights = append(hit.Highlights, &memoryv1.Highlight{OffsetBytes: int32(s.Start), LengthBytes: int32(s.End - s.Start)})
		}
		if h.Fact != nil {
			hit.Fact = factOut(*h.Fact)
			hit.Fact.Text = ""
		}
		for _, t := range h.Terms {
			hit.Explanation = append(hit.Explanation, &memoryv1.TermScore{Field: t.Field, Term: t.Term, Score: t.Score})
		}
		out = append(out, hit)
	}
	return out
}

func freshnessOut(f memory.Freshness) *memoryv1.Freshness {
	return &memoryv1.Freshness{Current: f.Current, PendingFiles: int32(f.PendingFiles), PendingBytes: f.PendingBytes, SyncTime: timeOut(f.SyncTime)}
}

func timeOut(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}
