package rpc

import (
	"context"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/services/memory/internal/memory"
)

// SaveFacts remembers facts.
func (s *Server) SaveFacts(ctx context.Context, req *memoryv1.SaveFactsRequest) (*memoryv1.SaveFactsResponse, error) {
	save := memory.SaveRequest{Zone: req.GetTimeZone(), Promote: req.GetPromote(), Title: "saved"}
	for _, f := range req.GetFacts() {
		save.Facts = append(save.Facts, memory.NewFact{
			Text: f.GetText(), Kind: kindIn(f.GetKind()), Topic: f.GetTopic(), Provenance: provenanceIn(f.GetProvenance()),
		})
	}
	r, err := s.memory.SaveFacts(ctx, save)
	if err != nil {
		return nil, err
	}
	return &memoryv1.SaveFactsResponse{Facts: savedOut(r.Facts), Path: r.Path, Cursor: r.Cursor, Promoted: r.Promoted}, nil
}

// Append adds text to the ledger.
func (s *Server) Append(ctx context.Context, req *memoryv1.AppendRequest) (*memoryv1.AppendResponse, error) {
	r, err := s.memory.Append(ctx, memory.AppendRequest{Text: req.GetText(), Zone: req.GetTimeZone(), Provenance: provenanceIn(req.GetProvenance())})
	if err != nil {
		return nil, err
	}
	out := &memoryv1.AppendResponse{Path: r.Path, Cursor: r.Cursor}
	for _, f := range r.Facts {
		out.Facts = append(out.Facts, factOut(f))
	}
	return out, nil
}

// GetFact returns one fact.
func (s *Server) GetFact(ctx context.Context, req *memoryv1.GetFactRequest) (*memoryv1.GetFactResponse, error) {
	f, err := s.memory.GetFact(ctx, req.GetFactId())
	if err != nil {
		return nil, err
	}
	return &memoryv1.GetFactResponse{Fact: factOut(f)}, nil
}

// Flush extracts facts from a thread.
func (s *Server) Flush(ctx context.Context, req *memoryv1.FlushRequest) (*memoryv1.FlushResponse, error) {
	r, err := s.memory.Flush(ctx, memory.FlushRequest{
		After: req.GetAfterSeq(), Through: req.GetThroughSeq(), Method: memory.Method(req.GetMethod()), DryRun: req.GetDryRun(), Zone: req.GetTimeZone(),
	})
	if err != nil {
		return nil, err
	}
	return &memoryv1.FlushResponse{
		Facts: savedOut(r.Facts), ThroughSeq: r.Through, Messages: int32(r.Messages), Method: memoryv1.Method(r.Method), Cursor: r.Cursor, Rejected: r.Rejected,
	}, nil
}

// Forget removes facts.
func (s *Server) Forget(ctx context.Context, req *memoryv1.ForgetRequest) (*memoryv1.ForgetResponse, error) {
	forget := memory.ForgetRequest{IDs: req.GetFactIds().GetIds(), Everything: req.GetEverything(), Redact: req.GetRedactThreads(), DryRun: req.GetDryRun()}
	if req.GetQuery() != nil {
		q := searchIn(req.GetQuery())
		forget.Query = &q
	}
	r, err := s.memory.Forget(ctx, forget)
	if err != nil {
		return nil, err
	}
	out := &memoryv1.ForgetResponse{FactIds: r.FactIDs, Lines: map[string]int32{}, Events: int32(r.Events), Cursor: r.Cursor}
	for path, n := range r.Lines {
		out.Lines[path] = int32(n)
	}
	for _, left := range r.Remainders {
		out.Remainders = append(out.Remainders, &memoryv1.Remainder{Place: left.Place, Detail: left.Detail})
	}
	return out, nil
}
