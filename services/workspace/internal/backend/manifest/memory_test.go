package manifest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// many writes one file to each of some spaces.
func many(t *testing.T, s *manifest.Store, spaces int) {
	t.Helper()
	for i := range spaces {
		staged, err := s.Stage(t.Context(), strings.NewReader(fmt.Sprint(i)), 0)
		if err != nil {
			t.Fatal(err)
		}
		v := files.NewView(s, files.Space(fmt.Sprint("space-", i)), nil, files.Limits{}, time.Now)
		if _, err := v.Write(t.Context(), call, files.Write{Path: fsops.PathOf("f")}, staged); err != nil {
			t.Fatal(err)
		}
	}
}

// A store with little memory lets go of spaces and reads them again.
func TestLittleMemory(t *testing.T) {
	m := newMemory()
	s := open(t, m, manifest.Config{CacheBytes: 20_000})
	const spaces = 60
	many(t, s, spaces)
	loads := m.count("checkpoints")
	for range 2 {
		for i := range spaces {
			v := files.NewView(s, files.Space(fmt.Sprint("space-", i)), nil, files.Limits{}, time.Now)
			if _, got, err := v.ReadAll(t.Context(), fsops.PathOf("f"), 10); err != nil || string(got) != fmt.Sprint(i) {
				t.Errorf("space %d holds %q, %v", i, got, err)
			}
		}
	}
	if again := m.count("checkpoints") - loads; again < spaces {
		t.Errorf("%d spaces were read again: nothing was let go of", again)
	}
	loads = m.count("checkpoints")
	large := open(t, m, manifest.Config{})
	for range 3 {
		for i := range spaces {
			if _, err := large.Usage(t.Context(), files.Space(fmt.Sprint("space-", i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	if again := m.count("checkpoints") - loads; again != spaces {
		t.Errorf("with memory for all, %d spaces were read %d times", spaces, again)
	}
}

// Readers at the same time share the question whether something is newer, and each learns of what was written before it asked.
func TestSharedLooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := open(t, m, manifest.Config{})
		write(t, s, "a", "1")
		m.before = func(c string) error {
			if c == "after" {
				time.Sleep(10 * time.Millisecond) // of the bubble
			}
			return nil
		}
		before := m.count("after")
		for range 200 {
			go func() {
				if _, err := s.Usage(t.Context(), space); err != nil {
					t.Error(err)
				}
			}()
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if asked := m.count("after") - before; asked > 2 {
			t.Errorf("200 readers at once asked %d times", asked)
		}
	})
}

// A checkpoint that is damaged costs nothing while an older one and the entries after it are there; without, the space is DATA_LOSS and no empty one.
func TestDamagedCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		s := open(t, m, noHistory)
		for i := range 600 {
			write(t, s, "f", fmt.Sprint(i))
			settle(m)
		}
		var marks []string
		for k := range m.marks {
			marks = append(marks, k)
		}
		slices.Sort(marks)
		if len(marks) != 2 {
			t.Fatalf("checkpoints %q", marks)
		}
		newest := m.marks[marks[1]]
		newest.data[len(newest.data)/2] ^= 1
		has(t, open(t, m, noHistory), "f", "599")
		oldest := m.marks[marks[0]]
		oldest.data[len(oldest.data)/2] ^= 1
		_, err := open(t, m, noHistory).Usage(t.Context(), space)
		if !errors.Is(err, errdefs.ErrDataLoss) {
			t.Errorf("got %v", err)
		}
		has(t, s, "f", "599") // who has the state does not need one
	})
}

// An update of very many files is one entry, and another replica reads it.
func TestLargeUpdate(t *testing.T) {
	m := newMemory()
	s := open(t, m, manifest.Config{})
	const count = 20_000
	_, err := s.Update(t.Context(), space, files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
		for i := range count {
			staged, err := s.Stage(ctx, strings.NewReader(fmt.Sprint(i)), 0)
			if err != nil {
				return nil, err
			}
			if _, err := tx.Put(ctx, files.File{Path: fsops.PathOf(fmt.Sprintf("d%d/f%d", i%100, i)), Content: staged, Mode: 0o644}); err != nil {
				return nil, err
			}
		}
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	other := open(t, m, manifest.Config{})
	moved, err := view(other).Move(t.Context(), call, files.Move{From: fsops.PathOf("d7"), To: fsops.PathOf("e7")})
	if err != nil || moved.Files != count/100 {
		t.Errorf("%+v, %v", moved, err)
	}
	has(t, s, "e7/f7", "7")
	if u, err := other.Usage(t.Context(), space); err != nil || u.Files != count {
		t.Errorf("%+v, %v", u, err)
	}
}

// A file that is appended to for long stays in few pieces.
func TestManyAppends(t *testing.T) {
	m := newMemory()
	s := open(t, m, noHistory)
	var want strings.Builder
	for i := range 2000 {
		line := fmt.Sprintf("%d %s\n", i, strings.Repeat("x", i%300))
		if _, err := view(s).Append(t.Context(), call, fsops.PathOf("log"), []byte(line), false); err != nil {
			t.Fatal(err)
		}
		want.WriteString(line)
	}
	fresh := open(t, m, noHistory)
	has(t, fresh, "log", want.String())
	asked := m.count("get")
	again := open(t, m, noHistory)
	before := m.count("get")
	node, err := view(again).Stat(t.Context(), fsops.PathOf("log"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := again.Space(space).Load(t.Context(), node.Node); err != nil {
		t.Fatal(err)
	}
	if n := m.count("get") - before; n > 1 {
		t.Errorf("the file was asked for %d times", n)
	}
	if asked > 200 {
		t.Errorf("2,000 appends and a read asked for chunks %d times", asked)
	}
}
