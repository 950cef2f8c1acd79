// Package storetest is the suite for [sandbox.SnapshotStore].
package storetest

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Case is one property of a store.
type Case struct {
	Name string
	Run  func(tb testing.TB, s sandbox.SnapshotStore)
}

// CaseBucketsApart is the name of the case that a store which ignores the bucket fails.
const CaseBucketsApart = "buckets share nothing"

const ana, ben = "default/user/coder/ana", "default/user/coder/ben"

// Run runs the suite. The factory returns a new, empty store.
func Run(t *testing.T, factory func(testing.TB) sandbox.SnapshotStore) {
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) { c.Run(t, factory(t)) })
	}
}

// Put stores content and a manifest that names it.
func Put(tb testing.TB, s sandbox.SnapshotStore, bucket, content string) (sandbox.Blob, string) {
	tb.Helper()
	blob, err := s.PutBlob(context.Background(), bucket, strings.NewReader(content))
	if err != nil {
		tb.Fatal(err)
	}
	id, err := s.PutManifest(context.Background(), sandbox.Manifest{Bucket: bucket, Archive: blob, Created: time.Now()})
	if err != nil {
		tb.Fatal(err)
	}
	return blob, id
}

func read(s sandbox.SnapshotStore, bucket, sum string) (string, error) {
	r, err := s.OpenBlob(context.Background(), bucket, sum)
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	return string(text), err
}

// Cases returns the whole suite.
func Cases() []Case {
	ctx := context.Background()
	return []Case{
		{"what is stored can be read", func(tb testing.TB, s sandbox.SnapshotStore) {
			blob, id := Put(tb, s, ana, "content")
			if got, err := read(s, ana, blob.SHA256); got != "content" || err != nil || blob.Size != 7 {
				tb.Errorf("%q %v %+v", got, err, blob)
			}
			m, err := s.Manifest(ctx, ana, id)
			if err != nil || m.ID != id || m.Archive != blob || m.Bucket != ana {
				tb.Errorf("%+v %v", m, err)
			}
			if again, _ := Put(tb, s, ana, "content"); again != blob {
				tb.Errorf("the same content is %+v and %+v", blob, again)
			}
		}},
		{CaseBucketsApart, func(tb testing.TB, s sandbox.SnapshotStore) {
			blob, id := Put(tb, s, ana, "secret")
			if _, err := s.Manifest(ctx, ben, id); errdefs.ReasonOf(err) != sandbox.ReasonSnapshotNotFound {
				tb.Errorf("the manifest of another bucket: %v", err)
			}
			if got, err := read(s, ben, blob.SHA256); err == nil {
				tb.Errorf("the blob of another bucket: %q", got)
			}
			if list, err := s.Manifests(ctx, ben); err != nil || len(list) != 0 {
				tb.Errorf("the list of another bucket: %+v %v", list, err)
			}
			if err := s.Delete(ctx, ben, id); err != nil {
				tb.Errorf("delete: %v", err)
			}
			if _, err := s.Manifest(ctx, ana, id); err != nil {
				tb.Errorf("after another bucket deleted it: %v", err)
			}
			if err := s.SetHead(ctx, ana, sandbox.Head{}, sandbox.Head{Version: 1, Snapshot: id}); err != nil {
				tb.Fatal(err)
			}
			if h, err := s.Head(ctx, ben); err != nil || h.Version != 0 {
				tb.Errorf("the head of another bucket: %+v %v", h, err)
			}
		}},
		{"a failing source leaves nothing", func(tb testing.TB, s sandbox.SnapshotStore) {
			broken := errors.New("broken")
			if _, err := s.PutBlob(ctx, ana, io.MultiReader(strings.NewReader("part"), iotest.ErrReader(broken))); err == nil {
				tb.Error("no error")
			}
			gone, cancel := context.WithCancel(ctx)
			cancel()
			if _, err := s.PutBlob(gone, ana, strings.NewReader("x")); !errors.Is(err, context.Canceled) {
				tb.Errorf("cancelled: %v", err)
			}
		}},
		{"the head changes by compare and set", func(tb testing.TB, s sandbox.SnapshotStore) {
			var wins int
			var mu sync.Mutex
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					err := s.SetHead(ctx, ana, sandbox.Head{}, sandbox.Head{Version: 1, Token: int64(i)})
					mu.Lock()
					defer mu.Unlock()
					if err == nil {
						wins++
					} else if errdefs.ReasonOf(err) != sandbox.ReasonFenced || !errors.Is(err, errdefs.ErrAborted) {
						tb.Errorf("loser: %v", err)
					}
				})
			}
			all.Wait()
			if wins != 1 {
				tb.Errorf("%d winners", wins)
			}
		}},
		{"delete keeps what others need", func(tb testing.TB, s sandbox.SnapshotStore) {
			blob, one := Put(tb, s, ana, "shared")
			_, two := Put(tb, s, ana, "shared")
			for range 2 {
				if err := s.Delete(ctx, ana, one); err != nil {
					tb.Fatal(err)
				}
			}
			if got, err := read(s, ana, blob.SHA256); got != "shared" || err != nil {
				tb.Errorf("%q %v", got, err)
			}
			if err := s.Delete(ctx, ana, two); err != nil {
				tb.Fatal(err)
			}
			if _, err := read(s, ana, blob.SHA256); err == nil {
				tb.Error("the blob is there though nothing names it")
			}
		}},
		{"lists are newest first, and hostile ids find nothing", func(tb testing.TB, s sandbox.SnapshotStore) {
			_, one := Put(tb, s, ana, "1")
			_, two := Put(tb, s, ana, "2")
			list, err := s.Manifests(ctx, ana)
			if err != nil || len(list) != 2 || list[0].ID != two || list[1].ID != one {
				tb.Errorf("%+v %v", list, err)
			}
			for _, id := range []string{"", "..", "../../x", strings.Repeat("a", 64), strings.ToUpper(one)} {
				if _, err := s.Manifest(ctx, ana, id); errdefs.ReasonOf(err) != sandbox.ReasonSnapshotNotFound {
					tb.Errorf("%q: %v", id, err)
				}
			}
		}},
	}
}
