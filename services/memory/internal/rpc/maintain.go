package rpc

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/services/memory/internal/memory"
)

// Consolidate merges ledgers into MEMORY.md.
func (s *Server) Consolidate(ctx context.Context, req *memoryv1.ConsolidateRequest) (*memoryv1.ConsolidateResponse, error) {
	r, err := s.memory.Consolidate(ctx, memory.ConsolidateRequest{
		Method: memory.Method(req.GetMethod()), DryRun: req.GetDryRun(), Budget: int(req.GetBudgetTokens()), Full: req.GetFull(),
	})
	if err != nil {
		return nil, err
	}
	return &memoryv1.ConsolidateResponse{
		Changed: r.Changed, Method: memoryv1.Method(r.Method), EntriesRead: int32(r.Read), Added: int32(r.Added), Superseded: int32(r.Superseded),
		Duplicates: int32(r.Duplicates), Overflowed: int32(r.Overflowed), Diff: r.Diff, Tokens: int32(r.Tokens), PreviousVersionId: r.Previous,
		Remerges: int32(r.Remerges), Cursor: r.Cursor, OverBudget: r.OverBudget,
	}, nil
}

// GetStatus tells the state.
func (s *Server) GetStatus(ctx context.Context, _ *memoryv1.GetStatusRequest) (*memoryv1.GetStatusResponse, error) {
	st, err := s.memory.Status(ctx)
	if err != nil {
		return nil, err
	}
	return &memoryv1.GetStatusResponse{
		Index: indexOut(st.Index), ThreadIndex: indexOut(st.Threads),
		Consolidation: &memoryv1.ConsolidationStatus{
			LastRunTime: timeOut(st.LastRun), PendingBytes: st.PendingBytes, PendingLedgers: int32(st.PendingLedgers), Running: st.Running, LastError: st.LastError,
		},
		Ledgers: int32(st.Ledgers), SizeBytes: st.Bytes, MemoryTokens: int32(st.Tokens), Model: st.Model, LastFlushError: st.LastFlushError,
	}, nil
}

func indexOut(st memory.IndexStatus) *memoryv1.IndexStatus {
	return &memoryv1.IndexStatus{
		Exists: st.Exists, Documents: st.Documents, SizeBytes: st.Bytes, SyncTime: timeOut(st.Synced), Heals: int32(st.Heals),
		PendingFiles: int32(st.Pending), LastError: st.LastError,
	}
}

// Rebuild builds an index anew.
func (s *Server) Rebuild(ctx context.Context, req *memoryv1.RebuildRequest) (*memoryv1.RebuildResponse, error) {
	started := time.Now()
	st, err := s.memory.Rebuild(ctx, req.GetThreads())
	if err != nil {
		return nil, err
	}
	return &memoryv1.RebuildResponse{Documents: st.Docs, Sources: int32(st.Sources), Duration: durationpb.New(time.Since(started))}, nil
}
