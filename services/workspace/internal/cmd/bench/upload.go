package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/measure"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/cmd/replica"
)

const (
	uploadBytes = 1 << 30
	pieceBytes  = 256 << 10
	// sampleEvery is how often the heap of the serving process is looked at.
	sampleEvery = 20 * time.Millisecond
)

// upload streams 1 GiB in and out of a process of its own and watches the heap of that process.
func upload(b *bench) {
	if _, err := os.Stat(b.bin); err != nil {
		b.Fatalf("%v; make build builds it", err)
	}
	for _, backend := range []struct {
		name string
		args func() []string
	}{
		{"local", func() []string { return nil }},
		{"sqlite", func() []string { return nil }},
		{"postgres", func() []string { return []string{"--postgres-dsn=" + testkit.Postgres(b)} }},
	} {
		dir := b.TempDir()
		debug := fmt.Sprintf("127.0.0.1:%d", testkit.FreePort(b))
		p, err := replica.New(replica.Config{
			Bin: b.bin, Log: filepath.Join(dir, "log"), Env: []string{"GOMEMLIMIT=off"},
			Args: append([]string{"--backend=" + backend.name, "--data=" + filepath.Join(dir, "data"), "--workspace=" + filepath.Join(dir, "workspace"), "--debug-address=" + debug}, backend.args()...),
		})
		b.must(err)
		b.must(p.Start(b.ctx))
		files := filesystemv1.NewFilesystemServiceClient(p.Conn())
		ctx := identity.NewContext(b.ctx, identity.Identity{User: "ana"})
		size := int64(b.size(uploadBytes))
		if backend.name == "postgres" {
			size /= 4 // its log doubles what is written
		}
		for _, way := range []struct {
			name string
			run  func() error
		}{{"upload", func() error { return send(ctx, files, size) }}, {"download", func() error { return receive(ctx, files, size) }}} {
			var failed error
			var took time.Duration
			peak := heapDuring(b, debug, func() { took = measure.Timed(func() { failed = way.run() }) })
			b.must(failed)
			b.say("upload: %s, %s of %d MiB: %.0f MiB/s, heap of the process at most %.1f MiB", backend.name, way.name, size>>20, float64(size>>20)/took.Seconds(), peak)
			b.report.AtMost(way.name+"_"+backend.name+"_heap_mib", measure.Round2(peak), 64)
		}
		b.must(errors.Join(p.Stop(), p.Close()))
		b.must(os.RemoveAll(dir))
	}
}

func send(ctx context.Context, files filesystemv1.FilesystemServiceClient, size int64) error {
	stream, err := files.Upload(ctx)
	if err != nil {
		return err
	}
	if err := stream.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Header{Header: &filesystemv1.UploadHeader{Path: "large.bin"}}}); err != nil {
		return err
	}
	piece := text(3, pieceBytes)
	for left := size; left > 0; left -= int64(len(piece)) {
		if err := stream.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Chunk{Chunk: piece[:min(left, pieceBytes)]}}); err != nil && !errors.Is(err, io.EOF) {
			return err
		} else if err != nil {
			break // the answer says why
		}
	}
	got, err := stream.CloseAndRecv()
	if err == nil && got.GetInfo().GetSizeBytes() != size {
		err = fmt.Errorf("%d bytes arrived", got.GetInfo().GetSizeBytes())
	}
	return err
}

func receive(ctx context.Context, files filesystemv1.FilesystemServiceClient, size int64) error {
	stream, err := files.Download(ctx, &filesystemv1.DownloadRequest{Path: "large.bin"})
	if err != nil {
		return err
	}
	for got := int64(0); ; {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if got != size {
				return fmt.Errorf("%d bytes came", got)
			}
			return nil
		}
		if err != nil {
			return err
		}
		got += int64(len(m.GetChunk()))
	}
}

// heapDuring returns the largest heap of a process while f runs, in MiB: what is in use and what the collector has not taken yet.
func heapDuring(b *bench, debug string, f func()) float64 {
	stop := make(chan struct{})
	var wait sync.WaitGroup
	peak, samples := 0.0, 0
	var failed error
	wait.Go(func() {
		ticker := time.NewTicker(sampleEvery)
		defer ticker.Stop()
		for {
			heap, err := heapOf(debug)
			if err != nil {
				failed = err
			} else {
				peak, samples = max(peak, heap), samples+1
			}
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	})
	f()
	close(stop)
	wait.Wait()
	if samples == 0 {
		b.Fatalf("the heap can't be looked at: %v", failed)
	}
	return peak
}

// heapOf reads the metrics of a process.
func heapOf(debug string) (float64, error) {
	answer, err := http.Get("http://" + debug + "/metrics")
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), "go_memstats_heap_inuse_bytes "); ok {
			bytes, err := strconv.ParseFloat(value, 64)
			return bytes / (1 << 20), err
		}
	}
	return 0, errors.New("the metrics say nothing about the heap")
}
