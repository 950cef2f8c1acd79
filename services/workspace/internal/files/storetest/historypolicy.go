package storetest

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

func historyCount(t testkit.T, places Places) {
	const count = 5
	u := kept(t, places, files.History{Count: count})
	for i := range 60 {
		u.write("f", fmt.Sprint(i))
		if _, err := u.Append(u.ctx, call, path("log"), []byte{'x'}, false); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 12 {
		u.write("gone", fmt.Sprint(i))
		u.remove("gone")
	}
	for name, newest := range map[string]int{"f": 58, "log": 59, "gone": 11} {
		got := u.history(name)
		if len(got) < count || len(got) > 3*count {
			t.Errorf("%d revisions of %s are kept, with a count of %d", len(got), name, count)
		}
		for i, content := range got {
			want := fmt.Sprint(newest - i)
			if name == "log" {
				want = strings.Repeat("x", newest-i)
			}
			if content != want {
				t.Errorf("revision %d of %s is %q, want %q", i, name, content, want)
			}
		}
	}
}

// clock is a clock that a test moves.
type clock struct{ at atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.at.Store(time.Now().UnixMicro())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMicro(c.at.Load()) }
func (c *clock) advance(d time.Duration) { c.at.Add(d.Microseconds()) }

func historyAge(t testkit.T, places Places) {
	c := newClock()
	u := as(t, places(t)(files.History{Count: 1000, Age: time.Hour}, c.now), bucket)
	u.write("f", "old")
	c.advance(10 * time.Hour) // age counts from the replacement
	u.write("f", "new")
	u.write("gone", "gone")
	u.remove("gone")
	// busy writes so much that a store which cleans up now and then does so.
	busy := func() {
		t.Helper()
		for i := range 200 {
			u.write("busy", fmt.Sprint(i))
		}
	}
	c.advance(59 * time.Minute)
	busy()
	u.had("f", "old")
	u.had("gone", "gone")
	c.advance(2 * time.Minute)
	// A store may notice when the path is written again, or when it cleans up.
	u.write("f", "newer")
	u.write("gone", "is back")
	u.write("gone", "is replaced")
	busy()
	u.had("f", "new")
	u.had("gone", "is back")
}

func historySize(t testkit.T, places Places) {
	u := kept(t, places, files.History{Count: 10, MaxFileBytes: 10})
	for _, content := range []string{"small", strings.Repeat("big", 10), "1234567890", "12345678901", "end"} {
		u.write("f", content)
	}
	u.had("f", "1234567890", "small")
	for _, part := range []string{"12345", "67890", "1", "2"} {
		if _, err := u.Append(u.ctx, call, path("log"), []byte(part), false); err != nil {
			t.Fatal(err)
		}
	}
	u.had("log", "1234567890", "12345")
	u.write("log", "x")
	u.had("log", "1234567890", "12345")
	u.remove("log")
	u.had("log", "x", "1234567890", "12345")
}

func noHistory(t testkit.T, places Places) {
	u := kept(t, places, files.History{})
	u.write("f", "1")
	u.write("f", "2")
	u.write("g", "3")
	if _, err := u.Move(u.ctx, call, files.Move{From: path("g"), To: path("f"), Overwrite: true}); err != nil {
		t.Fatal(err)
	}
	u.remove("f")
	u.had("f")
	u.had("g")
}
