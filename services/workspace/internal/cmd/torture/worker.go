package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"google.golang.org/protobuf/proto"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

const (
	// callTimeout bounds a call; stuckAfter is how long the outcome of a call may stay unknown.
	callTimeout = 30 * time.Second
	stuckAfter  = 90 * time.Second
)

// worker changes its part of a bucket: one call after another, through whatever replica chance picks.
type worker struct {
	run    *torturer
	bucket *bucket
	number int
	dir    string // below which it alone writes
	rng    *rand.Rand

	tree tree
	// past are contents that files had, newest last, by path and revision, for restores.
	past map[string][]file
	// told are the changes that Watch must tell, in this order.
	told []group
	n    int
	// logged are the lines that were added to the shared file, counted how often it raised the shared counter.
	logged  []string
	counted int
	// made are the shared files that it created.
	made map[string]string
}

func newWorker(r *torturer, b *bucket, number int, dir string) *worker {
	return &worker{
		run: r, bucket: b, number: number, dir: dir, rng: rand.New(rand.NewPCG(r.opt.seed, 1000+uint64(number))),
		tree: tree{}, past: map[string][]file{}, made: map[string]string{},
	}
}

// work does n operations.
func (w *worker) work(ctx context.Context, n int) {
	for range n {
		if ctx.Err() != nil {
			return
		}
		w.n++
		w.step(ctx)
		w.run.done()
	}
}

// client is one of the replicas, by chance.
func (w *worker) client() filesystemv1.FilesystemServiceClient {
	return w.run.clients[w.rng.IntN(len(w.run.clients))]
}

// content makes the content of a file: lines that each carry the bucket's mark.
func (w *worker) content() []byte {
	size := w.rng.IntN(2000)
	switch n := w.rng.IntN(100); {
	case n < 4:
		size = w.rng.IntN(400_000)
	case n < 25:
		size = w.rng.IntN(70_000)
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s worker %d version %d.\n", w.bucket.mark, w.number, w.n)
	for line := 0; out.Len() < size; line++ {
		fmt.Fprintf(&out, "%s worker %d version %d line %d needle-%d\n", w.bucket.mark, w.number, w.n, line, w.n%10)
	}
	return out.Bytes()
}

// change is a call that changes something.
type change struct {
	name string
	// want is the reason with which the model refuses it, "" when it must work.
	want string
	// may is a reason with which a store may refuse it for what it is: one change of two stores.
	may string
	// parts says that it goes over several stores, one after another: while it is open it may be seen in part.
	parts bool
	// call makes it. The answer is a message.
	call func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error)
	// apply does it to a model and returns what Watch must tell. The answer is nil while none has come.
	apply func(t tree, answer proto.Message) []event
}

// uncertain says whether an error leaves open what happened.
func uncertain(err error) bool {
	return errors.Is(err, errdefs.ErrUnavailable) || errors.Is(err, errdefs.ErrCanceled) || errors.Is(err, errdefs.ErrDeadlineExceeded)
}

// do makes a change, under one effect id as often as it takes to learn the outcome, and compares that with the model.
func (w *worker) do(ctx context.Context, c change) {
	id := w.effect(c.name)
	answer, attempts, err := w.attempt(ctx, id, c)
	if ctx.Err() != nil {
		return
	}
	if uncertain(err) {
		w.run.fault(wrong, "%s %s: no outcome within %s: %v", w.bucket.name, c.name, stuckAfter, err)
		return
	}
	got := errdefs.ReasonOf(err)
	if err != nil && c.may != "" && got == c.may {
		return
	}
	if err != nil && (got != c.want || c.want == "") {
		kind := wrong
		if attempts > 1 && c.want == "" {
			kind = doubled // the first attempt did it, and the repeat does not know
		}
		w.run.fault(kind, "%s %s, attempt %d: %v, the model says %q", w.bucket.name, c.name, attempts, err, c.want)
		w.adopt(ctx)
		return
	}
	if err != nil {
		return
	}
	if c.want != "" {
		w.run.fault(wrong, "%s %s: done, the model says %s", w.bucket.name, c.name, c.want)
		w.adopt(ctx)
		return
	}
	before := w.tree.clone()
	events := c.apply(w.tree, answer)
	w.remember(before)
	if len(events) > 0 {
		w.told = append(w.told, group{call: c.name, events: events})
	}
	if w.rng.IntN(10) == 0 {
		w.again(ctx, id, c, answer)
	}
}

// effect is the id of the call of this name in this step.
func (w *worker) effect(name string) string {
	return effect.For(w.run.started, "torture", w.run.backend.name, strconv.FormatUint(w.run.opt.seed, 10), strconv.Itoa(w.number), strconv.Itoa(w.n), name)
}

// attempt calls until there is an outcome.
func (w *worker) attempt(ctx context.Context, id string, c change) (answer proto.Message, attempts int, err error) {
	deadline := time.Now().Add(stuckAfter)
	cut := false
	for time.Now().Before(deadline) && ctx.Err() == nil {
		attempts++
		limit := callTimeout
		if w.rng.IntN(25) == 0 && attempts < 4 {
			limit, cut = time.Duration(w.rng.IntN(8000))*time.Microsecond, true
		}
		call, cancel := context.WithTimeout(w.run.as(ctx, w.bucket, id), limit)
		answer, err = c.call(call, w.client())
		cancel()
		if err == nil || !uncertain(err) {
			return answer, attempts, err
		}
		w.run.uncertain.Add(1)
		if c.want == "" && w.rng.IntN(2) == 0 {
			w.peek(ctx, c, cut)
		}
		pause(ctx, time.Duration(w.rng.IntN(20))*time.Millisecond)
	}
	return answer, attempts, err
}

// again repeats a call whose outcome is known: nothing may change, and the outcome is the same.
func (w *worker) again(ctx context.Context, id string, c change, answer proto.Message) {
	repeat, _, err := w.attempt(ctx, id, c)
	if ctx.Err() != nil || uncertain(err) {
		return
	}
	w.run.repeated.Add(1)
	if err != nil {
		w.run.fault(doubled, "%s %s: the repeat under the same effect id fails: %v", w.bucket.name, c.name, err)
		return
	}
	if first, second := withoutCursor(answer), withoutCursor(repeat); !proto.Equal(first, second) {
		w.run.fault(doubled, "%s %s: the repeat has another outcome:\n  %v\n  %v", w.bucket.name, c.name, first, second)
	}
}

// withoutCursor drops the cursor, which may be that of now.
func withoutCursor(m proto.Message) proto.Message {
	out := proto.Clone(m)
	if field := out.ProtoReflect().Descriptor().Fields().ByName("cursor"); field != nil {
		out.ProtoReflect().Clear(field)
	}
	return out
}

// peek looks while it is open whether a change happened: each file is as before or as after. Unless a call was cut, so that it may be at work still, or has parts, the names are all as before or
// all as after.
func (w *worker) peek(ctx context.Context, c change, cut bool) {
	after := w.tree.clone()
	c.apply(after, nil)
	if !cut && !c.parts {
		entries, err := w.list(ctx, w.client(), w.dir)
		if err != nil {
			return // nothing to see now
		}
		if !slices.Equal(entries.names(), w.tree.below(w.dir)) && !slices.Equal(entries.names(), after.below(w.dir)) {
			w.run.fault(half, "%s %s: the names are neither as before nor as after: %q", w.bucket.name, c.name, entries.names())
		}
	}
	for p, f := range w.tree {
		now, there := after[p]
		if there && now.same(f.content) {
			continue
		}
		_, content, err := w.download(ctx, w.client(), p, "")
		gone := errdefs.ReasonOf(err) == "PATH_NOT_FOUND" || errdefs.ReasonOf(err) == "NOT_A_DIRECTORY"
		if err != nil && !gone {
			continue
		}
		if !(!gone && f.same(content)) && !(gone && !there) && !(!gone && there && now.same(content)) {
			w.run.fault(half, "%s %s: %s is neither as before nor as after", w.bucket.name, c.name, p)
		}
	}
}

// remember keeps what was replaced or removed, for restores.
func (w *worker) remember(before tree) {
	for p, f := range before {
		if now, there := w.tree[p]; !there || now.revision != f.revision || !now.same(f.content) {
			if f.revision == "" {
				continue
			}
			kept := append(w.past[p], f)
			w.past[p] = kept[max(0, len(kept)-3):]
		}
	}
}

// adopt takes over what the bucket shows after a finding, so that one is not told again and again.
func (w *worker) adopt(ctx context.Context) {
	w.told = append(w.told, group{call: "lost track"})
	_, _ = w.see(ctx, func(c filesystemv1.FilesystemServiceClient) error {
		entries, err := w.list(ctx, c, w.dir)
		if err != nil {
			return err
		}
		w.tree = tree{}
		for _, e := range entries {
			info, content, err := w.download(ctx, c, e.GetPath(), "")
			if err != nil {
				return err
			}
			w.tree[normal(e.GetPath())] = file{content: content, revision: info.GetRevision()}
		}
		return nil
	})
}

// download reads a whole file and looks for marks of other buckets.
func (w *worker) download(ctx context.Context, c filesystemv1.FilesystemServiceClient, path, revision string) (*filesystemv1.FileInfo, []byte, error) {
	ctx, cancel := context.WithTimeout(w.run.as(ctx, w.bucket, ""), callTimeout)
	defer cancel()
	stream, err := c.Download(ctx, &filesystemv1.DownloadRequest{Path: path, Revision: revision})
	if err != nil {
		return nil, nil, err
	}
	var info *filesystemv1.FileInfo
	var content []byte
	ended := false
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		switch part := message.GetPart().(type) {
		case *filesystemv1.DownloadResponse_Header:
			info = part.Header
		case *filesystemv1.DownloadResponse_Chunk:
			content = append(content, part.Chunk...)
		case *filesystemv1.DownloadResponse_End:
			ended = part.End.GetSentBytes() == int64(len(content))
		}
	}
	if !ended {
		w.run.fault(wrong, "%s download of %s has no end, or another number of bytes", w.bucket.name, path)
	}
	w.foreign("download of "+path, content)
	return info, content, nil
}

// foreign looks for marks of other buckets.
func (w *worker) foreign(where string, content []byte) {
	for _, m := range marks.FindAll(content, -1) {
		if string(m) != w.bucket.mark {
			w.run.fault(leaked, "%s %s holds %s", w.bucket.name, where, m)
			return
		}
	}
}

// entries are the files of a listing.
type entries []*filesystemv1.FileInfo

func (e entries) names() []string {
	var out []string
	for _, f := range e {
		out = append(out, normal(f.GetPath()))
	}
	slices.Sort(out)
	return out
}

// list returns all files below a directory.
func (w *worker) list(ctx context.Context, c filesystemv1.FilesystemServiceClient, dir string) (entries, error) {
	ctx, cancel := context.WithTimeout(w.run.as(ctx, w.bucket, ""), callTimeout)
	defer cancel()
	var out entries
	for token := ""; ; {
		page, err := c.List(ctx, &filesystemv1.ListRequest{Path: dir, Recursive: true, PageToken: token})
		if errdefs.ReasonOf(err) == "PATH_NOT_FOUND" {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		for _, e := range page.GetEntries() {
			if e.GetKind() == filesystemv1.FileKind_FILE_KIND_FILE {
				out = append(out, e)
			}
		}
		if token = page.GetNextPageToken(); token == "" {
			return out, nil
		}
	}
}
