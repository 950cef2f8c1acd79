package checkpoint

import (
	"context"
	"fmt"
	"time"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

const (
	// InlineBytes is the largest projection that the event itself holds. Scans and watchers read the event; nobody but [Open] reads the blob.
	InlineBytes = 16 << 10
	// MaxBytes bounds a projection: that is what a blob may have.
	MaxBytes = 15 << 20
	// putTimeout bounds the time to store a blob: a run waits for it.
	putTimeout = 5 * time.Second
)

// Payload makes the checkpoint of a projection. It must be the payload of the event that comes next. A large projection is stored as a blob before Payload
// returns.
func Payload(ctx context.Context, threads threadv1.ThreadServiceClient, t *loop.Thread) (*threadv1.EventPayload, error) {
	data, err := t.Snapshot()
	if err != nil {
		return nil, err
	}
	written := &threadv1.CheckpointWritten{ThroughSeq: t.Seq, Format: loop.Format}
	switch {
	case len(data) > MaxBytes:
		return nil, fmt.Errorf("the projection has %d bytes, a checkpoint at most %d", len(data), MaxBytes)
	case len(data) > InlineBytes:
		ctx, cancel := context.WithTimeout(ctx, putTimeout)
		defer cancel()
		resp, err := threads.PutBlob(ctx, &threadv1.PutBlobRequest{Data: data})
		if err != nil {
			return nil, err
		}
		written.BlobSha256 = resp.GetSha256()
	default:
		written.Inline = data
	}
	return &threadv1.EventPayload{Kind: &threadv1.EventPayload_CheckpointWritten{CheckpointWritten: written}}, nil
}
