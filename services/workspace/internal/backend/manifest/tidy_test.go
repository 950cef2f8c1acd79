package manifest_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// noHistory keeps no previous revisions.
var noHistory = manifest.Config{History: files.History{Age: time.Second}}

// trusting is a memory whose entries' absence proves something for ten minutes, as with an object store.
func trusting() *memory {
	m := newMemory()
	m.trust = 10 * time.Minute
	return m
}

// settle lets what runs behind updates end.
func settle(m *memory) map[string]int {
	synctest.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	filled := 0
	for _, data := range m.entries {
		if len(data) > 0 {
			filled++
		}
	}
	return map[string]int{"entries": len(m.entries), "filled": filled, "checkpoints": len(m.marks), "chunks": len(m.chunks), "staged": len(m.staged)}
}

// Over hours of updates, what nobody needs goes, and all that is promised stays.
func TestTidy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := trusting()
		s := open(t, m, noHistory)
		const updates = 1500
		first := files.Call{Author: "ana", Effect: files.Effect{ID: "first", Hash: "h"}}
		recorded, err := tryWrite(t.Context(), s, first, "f/0", "0")
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < updates; i++ {
			write(t, s, fmt.Sprint("f/", i%10), fmt.Sprint(i))
			time.Sleep(time.Minute)
			settle(m)
		}
		held := settle(m)
		if held["entries"] > 800 || held["checkpoints"] > 4 || held["chunks"] > 250 {
			t.Errorf("after %d updates the store holds %v", updates, held)
		}
		for name, reader := range map[string]*manifest.Store{"the same store": s, "another one": open(t, m, noHistory)} {
			for i := range 10 {
				has(t, reader, fmt.Sprint("f/", i), fmt.Sprint(updates-10+i))
			}
			var cursor files.Cursor
			for seen := 0; seen < updates; {
				page, err := reader.Changes(t.Context(), space, cursor, 100)
				if err != nil || len(page) == 0 {
					t.Fatalf("%s: changes after %v: %d, %v", name, cursor, len(page), err)
				}
				for _, c := range page {
					if want := fmt.Sprint("f/", seen%10); c.Path.String() != want || c.Cursor.Seq != int64(seen+1) {
						t.Fatalf("%s: change %d is %+v, want %s", name, seen, c, want)
					}
					seen++
				}
				cursor = page[len(page)-1].Cursor
			}
			again, err := tryWrite(t.Context(), reader, first, "f/0", "0")
			if err != nil || again.Cursor != recorded.Cursor || again.Entry.Revision != recorded.Entry.Revision {
				t.Errorf("%s: the first call repeated: %+v, %v", name, again, err)
			}
		}
	})
}

// Replaced content is there for an hour, and not much longer while the bucket is in use.
func TestReplacedContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := trusting()
		cfg := noHistory
		cfg.CacheBytes = 1 // nothing is kept in memory
		s := open(t, m, cfg)
		write(t, s, "f", "old")
		_, content, err := view(s).Open(t.Context(), fsops.PathOf("f"))
		if err != nil {
			t.Fatal(err)
		}
		_, never, err := view(s).Open(t.Context(), fsops.PathOf("f"))
		if err != nil {
			t.Fatal(err)
		}
		write(t, s, "f", "new")
		for range 10 {
			time.Sleep(6 * time.Minute)
			write(t, s, "g", "x")
			settle(m)
		}
		if got, err := io.ReadAll(files.NewReader(t.Context(), content, 0)); err != nil || string(got) != "old" {
			t.Errorf("after an hour: %q, %v", got, err)
		}
		for range 20 {
			time.Sleep(6 * time.Minute)
			write(t, s, "g", "x")
			settle(m)
		}
		if got, err := io.ReadAll(files.NewReader(t.Context(), never, 0)); err == nil {
			t.Errorf("after three hours: %q", got)
		}
		has(t, s, "f", "new")
	})
}

// Chunks that no entry ever spoke of go after a day, staged ones too, and no others.
func TestOrphans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := trusting()
		s := open(t, m, manifest.Config{})
		write(t, s, "f", "1")
		write(t, s, "f", "2")
		write(t, s, "big", strings.Repeat("x", 2<<20))
		held := settle(m)
		orphan := []manifest.Chunk{{Name: "00000000000000000000000000.0", Data: []byte("orphan")}}
		if err := m.Put(t.Context(), space, orphan); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Stage(t.Context(), strings.NewReader(strings.Repeat("y", 3<<20)), 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(23 * time.Hour)
		write(t, s, "f", "3")
		if now := settle(m); now["chunks"] != held["chunks"]+2 || now["staged"] == 0 {
			t.Errorf("after 23 hours %v, before %v", now, held)
		}
		time.Sleep(2 * time.Hour)
		write(t, s, "f", "4")
		if now := settle(m); now["chunks"] != held["chunks"]+2 || now["staged"] != 0 {
			t.Errorf("after 25 hours %v, before %v", now, held)
		}
		has(t, s, "big", strings.Repeat("x", 2<<20))
		all, _, err := s.Space(space).Revisions(t.Context(), fsops.PathOf("f"), "", 10)
		if err != nil || len(all) != 3 {
			t.Errorf("%d previous revisions, %v", len(all), err)
		}
		data, err := s.Space(space).Load(t.Context(), all...)
		if err != nil || fmt.Sprintf("%s", data) != "[3 2 1]" {
			t.Errorf("previous revisions %s, %v", data, err)
		}
	})
}

// History goes by its policy, with its content.
func TestHistoryGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := trusting()
		s := open(t, m, manifest.Config{History: files.History{Count: 3, Age: 48 * time.Hour}})
		for i := range 8 {
			write(t, s, "f", fmt.Sprint(i))
		}
		write(t, s, "once", "a")
		write(t, s, "once", "b")
		kept := func(path string) (out []string) {
			all, _, err := s.Space(space).Revisions(t.Context(), fsops.PathOf(path), "", 100)
			if err != nil {
				t.Fatal(err)
			}
			data, err := s.Space(space).Load(t.Context(), all...)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range data {
				out = append(out, string(d))
			}
			return out
		}
		if got := kept("f"); fmt.Sprint(got) != "[6 5 4]" {
			t.Errorf("kept %q", got)
		}
		for range 4 {
			time.Sleep(25 * time.Hour)
			write(t, s, "other", "x")
			settle(m)
		}
		if got := kept("once"); len(got) != 0 {
			t.Errorf("after four days %q are kept", got)
		}
		if held := settle(m); held["chunks"] > 10 {
			t.Errorf("the store holds %v", held)
		}
	})
}

// A replica that has slept for hours finds its place in the log gone, and does not take that for the end of the log.
func TestSleeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := trusting()
		s, sleeper := open(t, m, noHistory), open(t, m, noHistory)
		write(t, s, "f", "0")
		has(t, sleeper, "f", "0")
		for i := range 1200 {
			write(t, s, "f", fmt.Sprint(i))
			time.Sleep(time.Minute)
			settle(m)
		}
		if _, there := m.entries[key(space, 2)]; there {
			t.Fatal("the entry after that of the sleeper is still there: nothing is tested")
		}
		write(t, sleeper, "g", "awake")
		has(t, sleeper, "f", "1199")
		has(t, s, "g", "awake")
	})
}

// A writer that is held up for hours just before it creates its entry finds the number free, since the entry of that number is gone: its change is made on what is there now.
func TestLateWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := trusting()
		s, late := open(t, m, noHistory), open(t, m, noHistory)
		write(t, s, "log", "0\n")
		has(t, late, "log", "0\n")
		held, goOn := make(chan bool), make(chan bool)
		first := true
		m.before = func(c string) error {
			if c == "create" && first {
				first = false
				close(held)
				<-goOn
			}
			return nil
		}
		done := make(chan error)
		go func() {
			_, err := view(late).Append(t.Context(), call, fsops.PathOf("log"), []byte("late\n"), false)
			done <- err
		}()
		<-held
		for i := range 1200 {
			if _, err := view(s).Append(t.Context(), call, fsops.PathOf("log"), []byte("x\n"), false); err != nil {
				t.Fatalf("append %d: %v", i, err)
			}
			time.Sleep(time.Minute)
			settle(m)
		}
		close(goOn)
		if err := <-done; err != nil {
			t.Errorf("the late writer: %v", err)
		}
		want := "0\n" + strings.Repeat("x\n", 1200) + "late\n"
		has(t, s, "log", want)
		has(t, open(t, m, noHistory), "log", want)
	})
}

// Forgetting leaves a tombstone and nothing else, and a writer that is held up meanwhile brings nothing back.
func TestForgetLeavesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := trusting()
		s, late := open(t, m, manifest.Config{}), open(t, m, manifest.Config{})
		for i := range 400 {
			write(t, s, fmt.Sprint("secret-", i%7), fmt.Sprint("secret ", i))
		}
		write(t, s, "log", "secret")
		settle(m)
		held, goOn := make(chan bool), make(chan bool)
		first := true
		m.before = func(c string) error {
			if c == "create" && first {
				first = false
				close(held)
				<-goOn
			}
			return nil
		}
		done := make(chan error)
		go func() {
			_, err := view(late).Edit(t.Context(), call, fsops.PathOf("log"), []fsops.Replacement{{Old: "secret", New: "secret again"}}, "")
			done <- err
		}()
		<-held
		if n, err := s.Forget(t.Context(), space); err != nil || n != 8 {
			t.Errorf("forgot %d files, %v", n, err)
		}
		close(goOn)
		if err := <-done; errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
			t.Errorf("the late writer: %v", err)
		}
		if now := settle(m); now["filled"] != 1 || now["checkpoints"] != 1 || now["chunks"] > 1 {
			t.Errorf("the store holds %v", now)
		}
		for _, data := range m.entries {
			if strings.Contains(string(data), "secret") {
				t.Error("an entry speaks of what was forgotten")
			}
		}
		for i := range 700 {
			write(t, late, "new", fmt.Sprint(i))
			time.Sleep(time.Minute)
			settle(m)
		}
		if now := settle(m); now["entries"] > 600 || now["chunks"] > 150 {
			t.Errorf("after new updates the store holds %v", now)
		}
		has(t, open(t, m, manifest.Config{}), "new", "699")
	})
}
