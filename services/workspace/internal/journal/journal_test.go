package journal_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

func TestTurns(t *testing.T) {
	// Three tenants that always have work: each gets its weight a round.
	turns := journal.Turns{Weight: func(tenant string) int { return map[string]int{"a": 3, "b": 1, "c": -5}[tenant] }}
	next := func(at string) string {
		for _, tenant := range []string{"a", "b", "c"} {
			if tenant >= at {
				return tenant
			}
		}
		return "a"
	}
	var got strings.Builder
	for range 10 {
		tenant := next(turns.Begin())
		turns.Took(tenant, 1, turns.Share(tenant, 1))
		got.WriteString(tenant)
	}
	if want := "aaabcaaabc"; got.String() != want {
		t.Errorf("turns %s, want %s", got.String(), want)
	}
	// A tenant that has less than its share gives its turn away.
	turns = journal.Turns{Weight: func(string) int { return 5 }}
	if share := turns.Share("a", 9); share != 5 {
		t.Errorf("share %d of weight 5", share)
	}
	turns.Took("a", 2, 5)
	if at := turns.Begin(); at <= "a" {
		t.Errorf("the turn stays at %q", at)
	}
}

func TestRunNextAndDue(t *testing.T) {
	soon := time.Unix(100, 0)
	for name, tt := range map[string]struct {
		run  journal.Run
		wake time.Time
		want time.Time
	}{
		"idle":              {journal.Run{}, journal.Never, journal.Never},
		"mail":              {journal.Run{}, soon, soon},
		"running":           {journal.Run{ID: "r", State: journal.RunRunning}, journal.Never, time.Time{}},
		"suspended":         {journal.Run{ID: "r", State: journal.RunSuspended}, journal.Never, journal.Never},
		"suspended, mail":   {journal.Run{ID: "r", State: journal.RunSuspended}, soon, soon},
		"task":              {journal.Run{ID: "r", State: journal.RunRunning, TaskID: "t"}, soon, journal.Never},
		"task, suspended":   {journal.Run{ID: "r", State: journal.RunSuspended, TaskID: "t"}, soon, journal.Never},
		"mail, due at once": {journal.Run{}, time.Time{}, time.Time{}},
	} {
		if got := journal.DueAt(tt.run, tt.wake); !got.Equal(tt.want) {
			t.Errorf("%s: due %v, want %v", name, got, tt.want)
		}
	}
}

func TestTimes(t *testing.T) {
	for _, at := range []time.Time{{}, time.Unix(0, 1).UTC(), time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)} {
		if got := journal.AtNanos(journal.Nanos(at)); !got.Equal(at) || got.IsZero() != at.IsZero() {
			t.Errorf("%v comes back as %v", at, got)
		}
	}
	if got := journal.Nanos(time.Date(1960, 1, 1, 0, 0, 0, 0, time.UTC)); got != 0 {
		t.Errorf("before 1970: %d", got)
	}
	if got := journal.Nanos(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)); got != math.MaxInt64 {
		t.Errorf("the year 9999: %d", got)
	}
}

func TestTokens(t *testing.T) {
	u := journal.User{Tenant: "t", Agent: "a", User: "u"}
	for _, n := range []int64{0, 1, math.MaxInt64} {
		if got, err := journal.ParseToken("list", u, journal.Token("list", u, n)); err != nil || got != n {
			t.Errorf("%d comes back as %d, %v", n, got, err)
		}
	}
	good := journal.Token("list", u, 7)
	for name, parse := range map[string]func() (int64, error){
		"other list": func() (int64, error) { return journal.ParseToken("changes", u, good) },
		"other user": func() (int64, error) { return journal.ParseToken("list", journal.User{Tenant: "t", Agent: "a"}, good) },
		"empty":      func() (int64, error) { return journal.ParseToken("list", u, "") },
		"short":      func() (int64, error) { return journal.ParseToken("list", u, good[:10]) },
		"negative":   func() (int64, error) { return journal.ParseToken("list", u, journal.Token("list", u, -1)) },
	} {
		if _, err := parse(); errdefs.ReasonOf(err) != journal.ReasonCursorInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestChainCoversTheHeadOfAnEvent(t *testing.T) {
	base := journal.Event{Schema: 1, ID: "e", Seq: 3, Time: time.Unix(5, 5), Type: "t", RunID: "r", TurnID: "u", Step: 2, PayloadHash: journal.HashOf([]byte("p"))}
	sum := journal.Chain(journal.Sum{}, &base)
	for name, change := range map[string]func(*journal.Event){
		"schema": func(e *journal.Event) { e.Schema = 2 }, "id": func(e *journal.Event) { e.ID = "f" }, "seq": func(e *journal.Event) { e.Seq = 4 },
		"time": func(e *journal.Event) { e.Time = time.Unix(5, 6) }, "type": func(e *journal.Event) { e.Type = "tr" }, "run": func(e *journal.Event) { e.RunID = "" },
		"turn": func(e *journal.Event) { e.TurnID = "" }, "step": func(e *journal.Event) { e.Step = 3 }, "required": func(e *journal.Event) { e.Required = true },
		"hash": func(e *journal.Event) { e.PayloadHash[0]++ }, "fields that run together": func(e *journal.Event) { e.Type, e.RunID = "tr", "" },
	} {
		e := base
		change(&e)
		if journal.Chain(journal.Sum{}, &e) == sum {
			t.Errorf("a change of %s is not covered", name)
		}
	}
	if journal.Chain(sum, &base) == sum {
		t.Error("the checksum before is not covered")
	}
	redacted := base
	redacted.Redacted, redacted.Payload, redacted.Reason = true, nil, "why"
	if journal.Chain(journal.Sum{}, &redacted) != sum {
		t.Error("a redaction breaks the chain")
	}
}

func FuzzParseSum(f *testing.F) {
	f.Add(journal.HashOf(nil).String())
	f.Add("../" + strings.Repeat("0", 61))
	f.Add(strings.Repeat("A", 64))
	f.Fuzz(func(t *testing.T, text string) {
		if sum, ok := journal.ParseSum(text); ok && sum.String() != text {
			t.Errorf("%q is read as %s", text, sum)
		}
	})
}

// FuzzFingerprint: batches with different content have different fingerprints, however their texts are cut.
func FuzzFingerprint(f *testing.F) {
	f.Add("ab", "c", "a", "bc")
	f.Add("", "x", "x", "")
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		one := journal.Batch{Title: a, Run: journal.Run{ID: b}}
		two := journal.Batch{Title: c, Run: journal.Run{ID: d}}
		if same := a == c && b == d; (one.Fingerprint() == two.Fingerprint()) != same {
			t.Errorf("%q %q and %q %q", a, b, c, d)
		}
	})
}
