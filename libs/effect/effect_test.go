package effect_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

var (
	at     = time.Date(2026, 3, 4, 5, 6, 7, 890e6, time.UTC)
	thread = identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: "s"}
)

func TestNewIsAFunctionOfItsPlace(t *testing.T) {
	id := effect.New(thread, "run", 7, 2, at)
	if again := effect.New(thread, "run", 7, 2, at.Add(100*time.Microsecond)); again != id {
		t.Errorf("the same place gave %q and %q", id, again)
	}
	other := thread
	other.User, other.Session = "us", ""
	tests := map[string]string{
		"thread":  effect.New(identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: "s2"}, "run", 7, 2, at),
		"run":     effect.New(thread, "run2", 7, 2, at),
		"seq":     effect.New(thread, "run", 8, 2, at),
		"ordinal": effect.New(thread, "run", 7, 3, at),
		"time":    effect.New(thread, "run", 7, 2, at.Add(time.Millisecond)),
		"client":  effect.Random(at),
		"named":   effect.For(at, "run", "7", "2"),
		"shifted": effect.New(other, "run", 7, 2, at),
	}
	for name, got := range tests {
		if got == id {
			t.Errorf("%s: another place gave the same id", name)
		}
	}
	if first, second := effect.Random(at), effect.Random(at); first == second {
		t.Error("two random ids are equal")
	}
	if effect.For(at, "ab", "c") == effect.For(at, "a", "bc") {
		t.Error("parts run into each other")
	}
}

func TestParse(t *testing.T) {
	id := effect.New(thread, "run", 7, 2, at)
	derived := effect.Derive(effect.Derive(id, "index"), "MEMORY.md")
	got, err := effect.Parse(derived)
	if err != nil {
		t.Fatal(err)
	}
	want := effect.ID{Root: id, Time: at, Names: []string{"index", identity.EncodeSegment("MEMORY.md")}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, text := range []string{"", "x", "e1", id + "x", id + "/", id + "//a", strings.ToUpper(id), "e2" + id[2:], "e1.-1." + id[len(id)-26:], "e1.00." + id[len(id)-26:], id + "/" + strings.Repeat("a", 250)} {
		if _, err := effect.Parse(text); errdefs.ReasonOf(err) != effect.ReasonMalformed {
			t.Errorf("Parse(%q): %v", text, err)
		}
	}
}

func TestDeriveStaysShortAndDistinct(t *testing.T) {
	id := effect.Random(at)
	seen := map[string]string{id: "root"}
	for _, name := range []string{"a", "A", "b", "a/b", "", "~", strings.Repeat("x", 300), strings.Repeat("x", 301), strings.Repeat("Ü", 200)} {
		child := effect.Derive(id, name)
		if other, taken := seen[child]; taken {
			t.Errorf("%q and %q derive the same id", name, other)
		}
		seen[child] = name
		if child != effect.Derive(id, name) {
			t.Errorf("%q: not deterministic", name)
		}
		if len(child) > identity.MaxIDBytes {
			t.Errorf("%q: %d bytes", name, len(child))
		}
		if err := effect.Check(child, at); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	deep := id
	for range 100 {
		next := effect.Derive(deep, "step")
		if next == deep || len(next) > identity.MaxIDBytes || !strings.HasPrefix(next, id+"/") {
			t.Fatalf("Derive(%q) = %q", deep, next)
		}
		if _, taken := seen[next]; taken {
			t.Fatalf("%q was derived before", next)
		}
		seen[next], deep = "deep", next
	}
	if got := effect.Derive("", "x"); got != "" {
		t.Errorf("no effect derives %q", got)
	}
}

func TestCheckAndExpired(t *testing.T) {
	id := effect.Random(at)
	tests := map[string]struct {
		id     string
		now    time.Time
		class  error
		reason string
	}{
		"none":            {"", at, nil, ""},
		"fresh":           {id, at, nil, ""},
		"almost too old":  {id, at.Add(effect.MaxAge), nil, ""},
		"too old":         {id, at.Add(effect.MaxAge + time.Millisecond), errdefs.ErrFailedPrecondition, effect.ReasonExpired},
		"clock behind":    {id, at.Add(-effect.MaxSkew), nil, ""},
		"from the future": {id, at.Add(-effect.MaxSkew - time.Millisecond), errdefs.ErrInvalidArgument, effect.ReasonMalformed},
		"no id":           {"abc", at, errdefs.ErrInvalidArgument, effect.ReasonMalformed},
		"derived is held": {effect.Derive(id, "x"), at.Add(7 * 24 * time.Hour), errdefs.ErrFailedPrecondition, effect.ReasonExpired},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := effect.Check(tt.id, tt.now)
			if errdefs.ReasonOf(err) != tt.reason || (tt.class != nil && !errors.Is(err, tt.class)) {
				t.Errorf("Check = %v, want %v %q", err, tt.class, tt.reason)
			}
		})
	}
	if effect.Expired(id, at.Add(effect.MaxAge)) || !effect.Expired(id, at.Add(effect.MaxAge+time.Second)) || !effect.Expired("abc", at) {
		t.Error("Expired disagrees with MaxAge")
	}
	if effect.RecordLife <= effect.MaxAge {
		t.Error("records must outlive the ids that are accepted")
	}
	if err := effect.Mismatch(id); !errors.Is(err, errdefs.ErrAborted) || errdefs.ReasonOf(err) != effect.ReasonMismatch {
		t.Errorf("Mismatch = %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(effect.Random(at))
	f.Add(effect.Derive(effect.Random(at), "a/b"))
	f.Fuzz(func(t *testing.T, text string) {
		id, err := effect.Parse(text)
		if err != nil {
			return
		}
		if got := strings.Join(append([]string{id.Root}, id.Names...), "/"); got != text {
			t.Fatalf("%q parses to %q", text, got)
		}
	})
}
