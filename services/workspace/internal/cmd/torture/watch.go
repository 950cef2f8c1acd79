package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
)

// watcher follows the changes of a bucket, through one replica after the other, with the cursor that it has got.
type watcher struct {
	run    *torturer
	bucket *bucket
	rng    *rand.Rand
	cursor string
	// seen are the cursors of the changes so far, heard the changes by the first name of their path.
	seen  map[string]bool
	heard map[string][]event
}

func newWatcher(r *torturer, b *bucket, number int) *watcher {
	return &watcher{
		run: r, bucket: b, rng: rand.New(rand.NewPCG(r.opt.seed, 2000+uint64(number))), cursor: "0", seen: map[string]bool{}, heard: map[string][]event{},
	}
}

// watch follows until ctx ends.
func (w *watcher) watch(ctx context.Context) {
	for ctx.Err() == nil {
		// Now and then it goes to another replica without need.
		limited, cancel := context.WithTimeout(ctx, time.Duration(100+w.rng.IntN(3000))*time.Millisecond)
		err := w.follow(limited, time.Minute)
		cancel()
		if err != nil && !uncertain(err) {
			w.run.fault(wrong, "%s watch from %s: %v", w.bucket.name, w.cursor, err)
		}
		pause(ctx, 10*time.Millisecond)
	}
}

// follow takes what one stream gives.
func (w *watcher) follow(ctx context.Context, wait time.Duration) error {
	client := w.run.clients[w.rng.IntN(len(w.run.clients))]
	stream, err := client.Watch(w.run.as(ctx, w.bucket, ""), &filesystemv1.WatchRequest{Cursor: w.cursor, MaxWait: durationpb.New(wait)})
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			return err
		}
		switch m := message.GetEvent().(type) {
		case *filesystemv1.WatchResponse_Change:
			w.hear(m.Change)
		case *filesystemv1.WatchResponse_End:
			w.cursor = m.End.GetCursor()
			return nil
		}
	}
}

// hear keeps a change, once.
func (w *watcher) hear(c *filesystemv1.Change) {
	w.cursor = c.GetCursor()
	if w.seen[c.GetCursor()] {
		return
	}
	w.seen[c.GetCursor()] = true
	first, _, _ := strings.Cut(c.GetPath(), "/")
	w.heard[first] = append(w.heard[first], event{
		kind: c.GetKind().String(), path: normal(c.GetPath()), from: normal(c.GetFromPath()), revision: c.GetRevision(),
	})
}

// verify takes what is left and compares with what the workers of the bucket did, in their order.
func (w *watcher) verify(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		err := w.follow(limited, 0)
		if err == nil {
			break
		}
		if !uncertain(err) || limited.Err() != nil {
			w.run.fault(wrong, "%s watch at the end: %v", w.bucket.name, err)
			return
		}
	}
	for _, worker := range w.run.workers {
		if worker.bucket == w.bucket {
			w.compare(worker)
		}
	}
	for first, events := range w.heard {
		if first != "w0" && first != "w1" && first != "together" {
			w.run.fault(leaked, "%s watch tells of %s", w.bucket.name, events[0].path)
		}
	}
}

// compare holds what was heard of a worker's part against what it did, for each store that keeps some of it: between two stores there is no order.
func (w *watcher) compare(worker *worker) {
	for _, store := range append([]string{""}, w.run.backend.routes...) {
		w.compareStore(worker, store)
	}
}

// kept says which store keeps a path: the longest route above it, "" when there is none.
func (b backend) kept(p string) string {
	best := ""
	for _, r := range b.routes {
		if (p == r || strings.HasPrefix(p, r+"/")) && len(r) > len(best) {
			best = r
		}
	}
	return best
}

// spans says whether the paths, with all that is below them, are in more than one store.
func (b backend) spans(paths ...string) bool {
	stores := map[string]bool{}
	for _, p := range paths {
		stores[b.kept(p)] = true
		for _, r := range b.routes {
			if strings.HasPrefix(r, p+"/") {
				stores[r] = true
			}
		}
	}
	return len(stores) > 1
}

func (w *watcher) compareStore(worker *worker, store string) {
	here := func(e event) bool { return w.run.backend.kept(e.path) == store }
	heard := slices.DeleteFunc(slices.Clone(w.heard[worker.dir]), func(e event) bool { return !here(e) })
	for _, g := range worker.told {
		if g.events == nil {
			return // the worker lost track; that was told
		}
		var want []event
		for _, e := range g.events {
			if here(e) {
				want = append(want, e)
			}
			// The store that a file leaves for another one tells of that too.
			if from := (event{kind: deleted, path: e.from}); e.kind == moved && here(from) && !here(e) {
				want = append(want, from)
			}
		}
		if len(heard) < len(want) {
			w.run.fault(lost, "%s watch lacks the last changes of %s, from %s on", w.bucket.name, worker.dir, g.call)
			return
		}
		got := heard[:len(want)]
		if !alike(got, want) {
			w.run.fault(lost, "%s watch tells %v where %s must come: %v", w.bucket.name, got, g.call, want)
			return
		}
		heard = heard[len(want):]
	}
	if len(heard) > 0 {
		w.run.fault(doubled, "%s watch tells %d changes of %s that were never acknowledged, the first: %v", w.bucket.name, len(heard), worker.dir, heard[0])
	}
}

// alike compares the events of a call in any order; a revision that is not known fits any.
func alike(got, want []event) bool {
	left := slices.Clone(got)
	for _, e := range want {
		i := slices.IndexFunc(left, func(g event) bool {
			return g.kind == e.kind && g.path == e.path && g.from == e.from && (e.revision == "" || e.revision == g.revision)
		})
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return true
}
