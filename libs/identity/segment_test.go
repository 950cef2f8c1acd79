package identity_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// oddIDs are ids that break naive encodings. All are legal but the empty one, which stands for anonymous.
var oddIDs = []string{
	"", "ana", "Ana", "ANA", "ana ", " ana", "a/b", "a", "b/c", "a:b", "a-b", "-a", "--", "cid9+/Q==", ".", "..", "...", "../x", ".hidden", "a.", "a..b",
	"~", "~ana", "+", "a+", "+/a", "=", "=41", "=4", "%41", "con", "CON", "con.txt", "nul", "nul.", "com1", "lpt9.log", "com", "com12", "aux.tar.gz", "console",
	"Ü", "U\u0308", "アナ", "🙂", "agents.md", "AGENTS.md", "thread", "user", "a\\b", `a"b`, "a*b?", "a|b<c>", "a\u00a0b",
	strings.Repeat("a", 199), strings.Repeat("a", 200), strings.Repeat("a", 256), strings.Repeat("Ü", 128), strings.Repeat("A", 256),
	strings.Repeat("a", 198) + "." + strings.Repeat("b", 20), strings.Repeat("a", 199) + "/con", strings.Repeat(".", 256),
	strings.Repeat("a", 198) + "/b", strings.Repeat("a", 199) + "con", strings.Repeat("a", 199) + ".", strings.Repeat("-", 256),
}

func TestSegmentsOfOddIDs(t *testing.T) {
	seen := map[string]string{}
	for _, id := range oddIDs {
		encoded := identity.EncodeSegment(id)
		checkLegal(t, id, encoded)
		got, err := identity.DecodeSegment(encoded)
		if err != nil || got != id {
			t.Errorf("DecodeSegment(%q) = %q, %v; want %q", encoded, got, err, id)
		}
		folded := strings.ToLower(encoded)
		if other, taken := seen[folded]; taken {
			t.Errorf("%q and %q have the same encoding %q", id, other, encoded)
		}
		seen[folded] = id
	}
	for a, idA := range seen {
		for b, idB := range seen {
			if a != b && strings.HasPrefix(b+"/", a+"/") {
				t.Errorf("the directory of %q lies in that of %q: %q, %q", idB, idA, b, a)
			}
		}
	}
}

func TestSegmentsAreReadable(t *testing.T) {
	tests := map[string]string{
		"": "~", "ana": "ana", "ana-2_x.y": "ana-2_x.y", "Ana": "=41na", ".x": "=2ex", "-x": "=2dx", "x.": "x=2e", "con": "=63on", "a/b": "a=2fb",
	}
	for id, want := range tests {
		if got := identity.EncodeSegment(id); got != want {
			t.Errorf("EncodeSegment(%q) = %q, want %q", id, got, want)
		}
	}
}

func TestDecodeSegmentRefusesWhatIsNoEncoding(t *testing.T) {
	for _, s := range []string{"", "Ana", "=4", "=", "=4G", "=4A", "=61", "a/b", ".", "..", "-a", "a.", "a+", "+/a", "a+/b", "con", "nul.txt", "ü", "~~", "~/a", " ", "a+b", "/"} {
		if id, err := identity.DecodeSegment(s); err == nil {
			t.Errorf("DecodeSegment(%q) = %q, want an error: the only encoding of it is %q", s, id, identity.EncodeSegment(id))
		} else if !errors.Is(err, errdefs.ErrInvalidArgument) || errdefs.ReasonOf(err) != identity.ReasonMalformed {
			t.Errorf("DecodeSegment(%q): %v, reason %q", s, err, errdefs.ReasonOf(err))
		}
	}
}

// FuzzSegment holds the promises of the encoding for any two strings.
func FuzzSegment(f *testing.F) {
	for i, id := range oddIDs {
		f.Add(id, oddIDs[(i+7)%len(oddIDs)])
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		ea, eb := identity.EncodeSegment(a), identity.EncodeSegment(b)
		checkLegal(t, a, ea)
		if got, err := identity.DecodeSegment(ea); err != nil || got != a {
			t.Fatalf("DecodeSegment(%q) = %q, %v; want %q", ea, got, err, a)
		}
		if a != b && (strings.EqualFold(ea, eb) || strings.HasPrefix(eb+"/", ea+"/")) {
			t.Fatalf("%q and %q collide: %q, %q", a, b, ea, eb)
		}
		if id, err := identity.DecodeSegment(a); err == nil && identity.EncodeSegment(id) != a {
			t.Fatalf("%q decodes to %q, whose encoding is another", a, id)
		}
	})
}

// checkLegal checks that an encoding is made of names that every common file system takes.
func checkLegal(t *testing.T, id, encoded string) {
	t.Helper()
	for i := range len(encoded) {
		c := encoded[i]
		if !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("-_.=~+/", c) >= 0) {
			t.Fatalf("encoding %q of %q holds the byte %q", encoded, id, c)
		}
	}
	for _, name := range strings.Split(encoded, "/") {
		stem, _, _ := strings.Cut(name, ".")
		switch {
		case name == "" || name[0] == '.' || name[0] == '-' || name[len(name)-1] == '.':
			t.Fatalf("encoding %q of %q has the name %q", encoded, id, name)
		case len(name) > identity.MaxSegmentBytes:
			t.Fatalf("encoding of %q has a name of %d bytes", id, len(name))
		case stem == "con" || stem == "prn" || stem == "aux" || stem == "nul" || (len(stem) == 4 && (stem[:3] == "com" || stem[:3] == "lpt") && stem[3] >= '0' && stem[3] <= '9'):
			t.Fatalf("encoding %q of %q is a device on Windows", encoded, id)
		}
	}
}
