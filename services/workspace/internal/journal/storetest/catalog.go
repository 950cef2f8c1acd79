package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

var ana = journal.UserOf(thread(""))

// list reads all pages of a size.
func (e *env) list(u journal.User, size int) []string {
	e.Helper()
	out := []string{}
	for token := ""; ; {
		heads, next, err := e.List(e.ctx, u, size, token)
		e.no(err)
		if len(heads) > size {
			e.Fatalf("a page of %d has %d threads", size, len(heads))
		}
		for _, h := range heads {
			out = append(out, h.Thread.Session)
		}
		if token = next; token == "" {
			return out
		}
	}
}

// changes reads all changes after a cursor; "-" stands before deleted threads.
func (e *env) changes(cursor string, size int) ([]string, string) {
	e.Helper()
	out := []string{}
	for {
		c, err := e.Changes(e.ctx, ana, cursor, size)
		e.no(err)
		if len(c.Heads)+len(c.Deleted) > size {
			e.Fatalf("a page of %d has %d changes", size, len(c.Heads)+len(c.Deleted))
		}
		for _, h := range c.Heads {
			out = append(out, h.Thread.Session)
		}
		for _, t := range c.Deleted {
			out = append(out, "-"+t.Session)
		}
		cursor = c.Cursor
		if !c.More {
			return out, cursor
		}
	}
}

var catalogCases = []Case{
	{"list/the one changed last first", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		claims := map[string]journal.Claim{}
		for _, s := range []string{"a", "b", "c", "d", "e"} {
			claims[s] = e.begin(s)
		}
		e.add(claims["b"], "x")
		e.post(thread("a"), wake("m"))
		want := []string{"b", "e", "d", "c", "a"}
		for size := 1; size <= 6; size++ {
			if got := e.list(ana, size); !slices.Equal(got, want) {
				tb.Errorf("pages of %d: %v, want %v", size, got, want)
			}
		}
		_, next, err := e.List(e.ctx, ana, 2, "")
		e.no(err)
		e.add(claims["e"], "moves to the front")
		heads, _, err := e.List(e.ctx, ana, 9, next)
		e.no(err)
		if len(heads) != 3 || heads[0].Thread.Session != "d" {
			tb.Errorf("the second page after a change has %d threads", len(heads))
		}
		for _, token := range []string{"x", "AAAA", next + "A", journal.Token("changes", ana, 1), journal.Token("list", journal.User{Tenant: "acme", Agent: "coder"}, 1)} {
			_, _, err := e.List(e.ctx, ana, 2, token)
			e.want(err, errdefs.ErrOutOfRange, journal.ReasonCursorInvalid)
		}
	}},
	{"changes/each once, oldest first", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		a, b := e.begin("a"), e.begin("b")
		e.add(a, "1")
		e.add(b, "1")
		e.add(a, "2")
		for size := 1; size <= 3; size++ {
			if got, _ := e.changes("", size); !slices.Equal(got, []string{"b", "a"}) {
				tb.Errorf("pages of %d: %v", size, got)
			}
		}
		_, cursor := e.changes("", 9)
		if got, again := e.changes(cursor, 9); len(got) != 0 || again != cursor {
			tb.Errorf("nothing changed, but %v, and the cursor moved: %v", got, again != cursor)
		}
		e.post(thread("a"), wake("m"))
		e.beat("r2/b")
		if got, _ := e.changes(cursor, 9); len(got) != 0 {
			tb.Errorf("mail counts as a change: %v", got)
		}
		e.add(b, "2")
		_, err := e.Delete(e.ctx, thread("a"))
		e.no(err)
		_, err = e.Fork(e.ctx, thread("b"), 0, "c")
		e.no(err)
		got, next := e.changes(cursor, 1)
		if !slices.Equal(got, []string{"b", "-a", "c"}) {
			tb.Errorf("changes %v", got)
		}
		e.begin("a")
		if got, _ := e.changes(next, 9); !slices.Equal(got, []string{"a"}) {
			tb.Errorf("made anew: %v", got)
		}
		if got, _ := e.changes("", 9); !slices.Equal(got, []string{"b", "c", "a"}) {
			tb.Errorf("from the start: %v", got)
		}
		for _, bad := range []string{"x", journal.Token("changes", ana, 1<<40), journal.Token("changes", journal.User{Tenant: "acme", Agent: "coder", User: "ben"}, 1)} {
			_, err := e.Changes(e.ctx, ana, bad, 9)
			e.want(err, errdefs.ErrOutOfRange, journal.ReasonCursorInvalid)
		}
	}},
	{"changes/nothing is missed between pages", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		for i := range 30 {
			e.add(e.begin(fmt.Sprint(i)), "x")
		}
		seen := make(map[string]bool)
		cursor := ""
		for i := 0; ; i++ {
			c, err := e.Changes(e.ctx, ana, cursor, 7)
			e.no(err)
			for _, h := range c.Heads {
				seen[h.Thread.Session] = true
			}
			if cursor = c.Cursor; !c.More {
				break
			}
			e.add(e.begin(fmt.Sprint(29-i)), "again")
		}
		if len(seen) != 30 {
			tb.Errorf("an indexer saw %d of 30 threads", len(seen))
		}
	}},
}

var blobCases = []Case{
	{"blobs/by hash, idempotent", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		for _, data := range [][]byte{{}, []byte("x"), make([]byte, 1<<20)} {
			for range 2 {
				sum, err := e.PutBlob(e.ctx, "acme", data)
				e.no(err)
				if sum != journal.HashOf(data) {
					tb.Errorf("hash %s", sum)
				}
			}
			got, err := e.GetBlob(e.ctx, "acme", journal.HashOf(data))
			e.no(err)
			if string(got) != string(data) {
				tb.Errorf("%d bytes came back as %d", len(data), len(got))
			}
		}
		_, err := e.GetBlob(e.ctx, "acme", journal.HashOf([]byte("other")))
		e.want(err, errdefs.ErrNotFound, journal.ReasonBlobNotFound)
	}},
	{"blobs/a commit names what is there", func(tb testing.TB, open Factory) {
		e := start(tb, open)
		c := e.begin("s")
		sum := journal.HashOf([]byte("image"))
		b := e.batch(c, "see the image")
		b.Events[0].Blobs = []journal.BlobRef{{SHA256: sum}}
		_, err := e.Commit(e.ctx, thread("s"), b)
		e.want(err, errdefs.ErrNotFound, journal.ReasonBlobNotFound)
		b.Events[0].Blobs[0].Optional = true
		e.commit(thread("s"), b)
		_, err = e.PutBlob(e.ctx, "acme", []byte("image"))
		e.no(err)
		b = e.batch(c, "see the image again")
		b.Events[0].Blobs = []journal.BlobRef{{SHA256: sum}}
		e.commit(thread("s"), b)
	}},
}
