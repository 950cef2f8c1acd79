package checkpoint_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/checkpoint"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// store is a journal of one thread that anything can be done to. It counts what is read.
type store struct {
	threadv1.ThreadServiceClient
	events []*threadv1.Event
	last   int64 // the checkpoint of the head
	blobs  map[string][]byte
	read   int
}

func (s *store) Scan(_ context.Context, req *threadv1.ScanRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[threadv1.ScanResponse], error) {
	after := req.GetAfterSeq()
	if req.GetFromCheckpoint() && s.last > 0 {
		after = s.last - 1
	}
	return &scan{store: s, at: int(after)}, nil
}

type scan struct {
	grpc.ClientStream
	*store
	at int
}

func (s *scan) Recv() (*threadv1.ScanResponse, error) {
	switch s.at++; {
	case s.at <= len(s.events):
		s.read++
		return &threadv1.ScanResponse{Item: &threadv1.ScanResponse_Event{Event: s.events[s.at-1]}}, nil
	case s.at == len(s.events)+1:
		return &threadv1.ScanResponse{Item: &threadv1.ScanResponse_End{End: &threadv1.ScanEnd{}}}, nil
	}
	return nil, io.EOF
}

func (s *store) PutBlob(_ context.Context, req *threadv1.PutBlobRequest, _ ...grpc.CallOption) (*threadv1.PutBlobResponse, error) {
	sum := sha256.Sum256(req.GetData())
	id := hex.EncodeToString(sum[:])
	s.blobs[id] = bytes.Clone(req.GetData())
	return &threadv1.PutBlobResponse{Sha256: id}, nil
}

func (s *store) GetBlob(_ context.Context, req *threadv1.GetBlobRequest, _ ...grpc.CallOption) (*threadv1.GetBlobResponse, error) {
	data, ok := s.blobs[req.GetSha256()]
	if !ok {
		return nil, errdefs.New(errdefs.ErrNotFound, "gantry.thread.v1", "BLOB_NOT_FOUND", "no such blob")
	}
	return &threadv1.GetBlobResponse{Data: data}, nil
}

// add appends events.
func (s *store) add(payloads ...*threadv1.EventPayload) {
	for _, p := range payloads {
		s.events = append(s.events, &threadv1.Event{Schema: 1, Seq: int64(len(s.events)) + 1, RunId: "r", Type: "x", Payload: p})
	}
}

// fill makes a thread of n events: short messages, of which a compaction leaves the last few now and then, and a checkpoint every 200 events if asked for.
func fill(t testing.TB, n int, checkpoints bool) *store {
	t.Helper()
	s, state := &store{blobs: map[string][]byte{}}, &loop.Thread{}
	for len(s.events) < n {
		at := len(s.events)
		switch {
		case checkpoints && at%200 == 199:
			s.checkpoint(t, state)
		case at%100 == 99:
			s.add(&threadv1.EventPayload{Kind: &threadv1.EventPayload_CompactionApplied{CompactionApplied: &threadv1.CompactionApplied{
				ThroughSeq: int64(at - 20), Summary: loop.Text("summary", threadv1.Role_ROLE_USER, loop.OriginSummary, strings.Repeat("s", 2000)),
			}}})
		default:
			s.add(&threadv1.EventPayload{Kind: &threadv1.EventPayload_MessageAppended{MessageAppended: &threadv1.MessageAppended{
				Message: loop.Text(fmt.Sprint("m", at), threadv1.Role_ROLE_USER, loop.OriginInject, strings.Repeat("x", 500)),
			}}})
		}
		if err := state.Apply(s.events[at]); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *store) checkpoint(t testing.TB, state *loop.Thread) {
	t.Helper()
	p, err := checkpoint.Payload(context.Background(), s, state)
	if err != nil {
		t.Fatal(err)
	}
	s.add(p)
	s.last = int64(len(s.events))
}

func (s *store) written() *threadv1.CheckpointWritten {
	return s.events[s.last-1].GetPayload().GetCheckpointWritten()
}

// open opens the thread and returns what was logged.
func open(t testing.TB, s *store, through int64) (checkpoint.Opened, string) {
	t.Helper()
	var log bytes.Buffer
	got, err := checkpoint.Open(context.Background(), s, through, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	return got, log.String()
}

func same(t testing.TB, s *store, got *loop.Thread, through int) {
	t.Helper()
	want := &loop.Thread{}
	for _, ev := range s.events[:through] {
		if err := want.Apply(ev); err != nil {
			t.Fatal(err)
		}
	}
	a, err := want.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := got.Snapshot(); err != nil || !bytes.Equal(a, b) {
		t.Errorf("the thread at %d is not what its events lead to; %v", through, err)
	}
}

func TestOpenReadsFromTheLastCheckpointOn(t *testing.T) {
	s := fill(t, 1050, true)
	got, log := open(t, s, 0)
	same(t, s, got.Thread, 1050)
	if s.read != 51 || got.CheckpointSeq != 1000 || log != "" {
		t.Errorf("%d events were read, from checkpoint %d; %s", s.read, got.CheckpointSeq, log)
	}
	if len(s.blobs) == 0 || len(s.written().GetInline()) > 0 {
		t.Error("a large projection is kept in the event")
	}
	if got, _ := open(t, fill(t, 10, true), 0); got.CheckpointSeq != 0 {
		t.Errorf("a thread without a checkpoint was opened from %d", got.CheckpointSeq)
	}
}

func TestOpenUpToAnEvent(t *testing.T) {
	s := fill(t, 450, true)
	for through, read := range map[int64]int{450: 51, 420: 22, 400: 2, 399: 401, 100: 102, 1: 3, 999: 51} {
		s.read = 0
		got, log := open(t, s, through)
		same(t, s, got.Thread, int(min(through, 450)))
		if s.read != read || log != "" {
			t.Errorf("up to %d: %d events were read, want %d; %s", through, s.read, read, log)
		}
	}
}

// TestWhatCannotBeUsedIsPassedOver spoils the last checkpoint: the thread is read from its first event, and somebody is told.
func TestWhatCannotBeUsedIsPassedOver(t *testing.T) {
	for name, spoil := range map[string]func(s *store){
		"newer format":        func(s *store) { s.written().Format = loop.Format + 1 },
		"no format":           func(s *store) { s.written().Format = 0 },
		"of another place":    func(s *store) { s.written().ThroughSeq-- },
		"moved":               func(s *store) { s.add(s.events[s.last-1].GetPayload()); s.last = int64(len(s.events)) },
		"empty":               func(s *store) { s.written().BlobSha256 = "" },
		"redacted":            func(s *store) { s.events[s.last-1].Payload, s.events[s.last-1].Redacted = nil, true },
		"the blob is missing": func(s *store) { clear(s.blobs) },
		"the blob is damaged": func(s *store) { s.blobs[s.written().GetBlobSha256()][40] ^= 1 },
		"the inline is damaged": func(s *store) {
			w := s.written()
			w.Inline, w.BlobSha256 = s.blobs[w.GetBlobSha256()], ""
			w.Inline[40] ^= 1
		},
		"another event is there":  func(s *store) { s.last++ },
		"the rest does not fit":   func(s *store) { s.stateless() },
		"whole, and of no thread": func(s *store) { s.alien() },
	} {
		t.Run(name, func(t *testing.T) {
			s := fill(t, 450, true)
			spoil(s)
			got, log := open(t, s, 0)
			same(t, s, got.Thread, len(s.events))
			if got.CheckpointSeq != 0 || strings.Count(log, "\n") != 1 || !strings.Contains(log, "level=WARN") {
				t.Errorf("opened from %d, the log is %q", got.CheckpointSeq, log)
			}
		})
	}
}

// stateless puts the checkpoint of an empty thread where one with a run must be: what follows is refused.
func (s *store) stateless() {
	s.last = 0
	s.events = slices.Delete(s.events, 100, len(s.events))
	s.add(&threadv1.EventPayload{Kind: &threadv1.EventPayload_RunStarted{RunStarted: &threadv1.RunStarted{}}}, &threadv1.EventPayload{Kind: &threadv1.EventPayload_RequestPrepared{RequestPrepared: &threadv1.RequestPrepared{}}})
	s.foreign(&threadv1.EventPayload{Kind: &threadv1.EventPayload_RunStarted{RunStarted: &threadv1.RunStarted{}}})
	s.add(&threadv1.EventPayload{Kind: &threadv1.EventPayload_ModelDispatched{ModelDispatched: &threadv1.ModelDispatched{}}})
}

// alien puts a checkpoint of an empty thread, which is whole in itself, at a later place.
func (s *store) alien() {
	data, err := (&loop.Thread{}).Snapshot()
	if err != nil {
		panic(err)
	}
	w := s.written()
	w.Inline, w.BlobSha256, w.ThroughSeq = data, "", s.last-1
}

// foreign adds a checkpoint whose run never asked the model.
func (s *store) foreign(started *threadv1.EventPayload) {
	t := &loop.Thread{Seq: int64(len(s.events)) - 1}
	if err := t.Apply(&threadv1.Event{Seq: t.Seq + 1, RunId: "r", Payload: started}); err != nil {
		panic(err)
	}
	p, err := checkpoint.Payload(context.Background(), s, t)
	if err != nil {
		panic(err)
	}
	s.add(p)
	s.last = int64(len(s.events))
}

// BenchmarkOpen opens threads of two lengths with and without checkpoints. The goal is 10 ms for 1,000 events, and the same for any length.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		for _, with := range []bool{true, false} {
			b.Run(fmt.Sprintf("events=%d/checkpoints=%t", n, with), func(b *testing.B) {
				s := fill(b, n-1, with)
				for b.Loop() {
					if got, _ := open(b, s, 0); got.Thread.Seq != int64(n-1) {
						b.Fatalf("opened up to %d", got.Thread.Seq)
					}
				}
			})
		}
	}
}
