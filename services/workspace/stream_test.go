package workspace_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"runtime"
	"runtime/debug"
	"testing"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace"
)

// A file of any size goes in and out in constant memory.
func TestConstantMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 160 MiB")
	}
	const size, limit = 160 << 20, 64 << 20
	for _, backend := range []string{workspace.BackendLocal, workspace.BackendSQLite} {
		t.Run(backend, func(t *testing.T) {
			files := filesystemv1.NewFilesystemServiceClient(serve(t, settings(t, backend), access.Options{}))
			ctx := as(t, identity.Identity{User: "ana"})
			up, err := files.Upload(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := up.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Header{Header: &filesystemv1.UploadHeader{Path: "big"}}}); err != nil {
				t.Fatal(err)
			}
			chunk := make([]byte, 1<<20)
			sum := sha256.New()
			// What other tests of the process have left is not the transfer's, nor is the garbage that the collector leaves lying for as long as that has not doubled.
			defer debug.SetGCPercent(debug.SetGCPercent(30))
			runtime.GC()
			var before runtime.MemStats
			runtime.ReadMemStats(&before)
			var most uint64
			look := func() {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				if m.HeapAlloc > before.HeapAlloc {
					most = max(most, m.HeapAlloc-before.HeapAlloc)
				}
			}
			for i := range size / len(chunk) {
				chunk[0] = byte(i)
				sum.Write(chunk)
				if err := up.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Chunk{Chunk: chunk}}); err != nil {
					t.Fatal(err)
				}
				look()
			}
			out, err := up.CloseAndRecv()
			if err != nil || out.GetInfo().GetSizeBytes() != size || out.GetInfo().GetSha256() != hex.EncodeToString(sum.Sum(nil)) {
				t.Fatalf("upload: %v, %v", out, err)
			}
			down, err := files.Download(ctx, &filesystemv1.DownloadRequest{Path: "big"})
			if err != nil {
				t.Fatal(err)
			}
			got := sha256.New()
			for n := 0; ; n++ {
				message, err := down.Recv()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				got.Write(message.GetChunk())
				if n%8 == 0 {
					look()
				}
			}
			if hex.EncodeToString(got.Sum(nil)) != out.GetInfo().GetSha256() {
				t.Error("what comes out is not what went in")
			}
			if most > limit {
				t.Errorf("the heap grew to %d MiB, at most %d are allowed", most>>20, limit>>20)
			}
			t.Logf("largest heap: %d MiB", most>>20)
		})
	}
}
