package fsops

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"golang.org/x/text/unicode/norm"
)

func TestEdit(t *testing.T) {
	nfd := norm.NFD.String("Überblick über 보고서\n")
	tests := []struct {
		name, content string
		edits         []Replacement
		want          string
		reason        string
		meta          map[string]string
	}{
		{name: "one", content: "a b c", edits: []Replacement{{Old: "b", New: "B"}}, want: "a B c"},
		{name: "LF old text on a CRLF file", content: "north\r\nsouth\r\neast\r\n",
			edits: []Replacement{{Old: "north\nsouth", New: "north\nSOUTH\nsouth-b"}}, want: "north\r\nSOUTH\r\nsouth-b\r\neast\r\n"},
		{name: "CRLF old text on an LF file", content: "a\nb\n", edits: []Replacement{{Old: "a\r\nb", New: "x\r\ny"}}, want: "x\ny\n"},
		{name: "untouched endings stay", content: "a\r\nb\nc\n", edits: []Replacement{{Old: "b", New: "B"}}, want: "a\r\nB\nc\n"},
		{name: "new text takes the endings of the file", content: "a\r\nb\r\n", edits: []Replacement{{Old: "a", New: "1\n2"}}, want: "1\r\n2\r\nb\r\n"},
		{name: "no ending to go by", content: "ab", edits: []Replacement{{Old: "a", New: "1\n"}}, want: "1\nb"},
		{name: "NFC old text on an NFD file", content: nfd, edits: []Replacement{{Old: "über 보고서", New: "x"}}, want: norm.NFD.String("Überblick ") + "x\n"},
		{name: "NFD old text on an NFC file", content: "보고서", edits: []Replacement{{Old: norm.NFD.String("고"), New: "-"}}, want: "보-서"},
		{name: "no match inside a composed character", content: norm.NFD.String("é"), edits: []Replacement{{Old: "e", New: "x"}}, reason: ReasonEditNoMatch},
		{name: "a base letter whose mark does not compose", content: "q\u0308x", edits: []Replacement{{Old: "x", New: "y"}}, want: "q\u0308y"},
		{name: "twice", content: "1\nx=1\n3\n4\n5\n6\n7\n8\nx=1\n", edits: []Replacement{{Old: "x=1", New: "x=2"}}, reason: ReasonEditAmbiguous,
			meta: map[string]string{"edit": "0", "matches": "2", "lines": "2,9"}},
		{name: "twice with all", content: "x=1\nx=1\n", edits: []Replacement{{Old: "x=1", New: "x=2", All: true}}, want: "x=2\nx=2\n"},
		{name: "empty old text", content: "a", edits: []Replacement{{Old: "", New: "x"}}, reason: ReasonEditInvalid, meta: map[string]string{"edit": "0"}},
		{name: "nothing to change", content: "a", edits: []Replacement{{Old: "a", New: "a"}}, reason: ReasonEditInvalid},
		{name: "the third does not match", content: "a b c", edits: []Replacement{{Old: "a", New: "1"}, {Old: "b", New: "2"}, {Old: "z", New: "3"}},
			reason: ReasonEditNoMatch, meta: map[string]string{"edit": "2", "matches": "0"}},
		{name: "overlap", content: "abcd", edits: []Replacement{{Old: "abc", New: "1"}, {Old: "cd", New: "2"}},
			reason: ReasonEditInvalid, meta: map[string]string{"edit": "1", "overlaps": "0"}},
		{name: "neighbours", content: "abcd", edits: []Replacement{{Old: "cd", New: "2"}, {Old: "ab", New: "1"}}, want: "12"},
		{name: "matched against the original", content: "a", edits: []Replacement{{Old: "a", New: "b"}, {Old: "b", New: "c"}}, reason: ReasonEditNoMatch},
		{name: "says where the first line is", content: "x\nfirst\nsecond\n", edits: []Replacement{{Old: "first\nother", New: "y"}},
			reason: ReasonEditNoMatch, meta: map[string]string{"near_line": "2"}},
		{name: "deletion", content: "a\nb\nc\n", edits: []Replacement{{Old: "b\n", New: ""}}, want: "a\nc\n"},
		{name: "bytes that are no text stay", content: "\xff\x00needle\xfe", edits: []Replacement{{Old: "needle", New: "pin"}}, want: "\xff\x00pin\xfe"},
		{name: "none", content: "a", reason: ReasonEditInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Edit([]byte(tt.content), tt.edits)
			if errdefs.ReasonOf(err) != tt.reason {
				t.Fatalf("got %q, %v, want reason %q", got.Content, err, tt.reason)
			}
			var e *errdefs.Error
			if errors.As(err, &e) {
				for key, want := range tt.meta {
					if e.Meta[key] != want {
						t.Errorf("metadata %s = %q, want %q", key, e.Meta[key], want)
					}
				}
				return
			}
			if string(got.Content) != tt.want {
				t.Errorf("got %q, want %q", got.Content, tt.want)
			}
		})
	}
}

func TestEditDiff(t *testing.T) {
	content := "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\nk\nl\nm\nn\no"
	tests := []struct {
		name  string
		edits []Replacement
		want  string
	}{
		{"one line", []Replacement{{Old: "h", New: "eight"}}, "@@ -5,7 +5,7 @@\n e\n f\n g\n-h\n+eight\n i\n j\n k\n"},
		{"a line less", []Replacement{{Old: "b\n", New: ""}}, "@@ -1,6 +1,5 @@\n a\n-b\n-c\n+c\n d\n e\n f\n"},
		{"two hunks", []Replacement{{Old: "a\nb", New: "a\nx\nb"}, {Old: "o", New: "o\n"}},
			"@@ -1,5 +1,6 @@\n-a\n-b\n+a\n+x\n+b\n c\n d\n e\n@@ -12,4 +13,4 @@\n l\n m\n n\n-o\n\\ No newline at end of file\n+o\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e, err := Edit([]byte(content), tt.edits)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Diff("f", MaxEditDiffBytes); got != "--- a/f\n+++ b/f\n"+tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
	big, err := Edit([]byte(strings.Repeat("x\n", 1000)), []Replacement{{Old: "x", New: "y", All: true}})
	if err != nil {
		t.Fatal(err)
	}
	if d := big.Diff("f", 100); len(d) > 100 || !strings.HasSuffix(d, "\n") {
		t.Errorf("a cut diff has %d bytes and ends in %q", len(d), d[len(d)-3:])
	}
}

// An edit ends, changes nothing but the stretches that it reports, and finds a text that plain comparison finds.
func FuzzEdit(f *testing.F) {
	f.Add("a\r\nb\r\n", "a\nb", "c", true)
	f.Add(norm.NFD.String("é보"), "é", "x", false)
	f.Add("aaa", "aa", "b", true)
	f.Fuzz(func(t *testing.T, content, old, replacement string, all bool) {
		start := time.Now()
		got, err := Edit([]byte(content), []Replacement{{Old: old, New: replacement, All: all}})
		if time.Since(start) > 5*time.Second {
			t.Fatal("too slow")
		}
		if err != nil {
			if r := errdefs.ReasonOf(err); !strings.HasPrefix(r, "EDIT_") {
				t.Fatalf("reason %q", r)
			}
			return
		}
		pos, out := 0, ""
		for _, r := range got.regions {
			out += content[pos:r.start] + string(r.text)
			pos = r.end
		}
		if out+content[pos:] != string(got.Content) {
			t.Fatalf("content does not follow from the regions")
		}
		got.Diff("f", MaxEditDiffBytes)
	})
}
