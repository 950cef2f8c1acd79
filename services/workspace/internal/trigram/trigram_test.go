package trigram_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/trigram"
	"golang.org/x/text/unicode/norm"
)

func queryOf(t testing.TB, pattern string, regex, ignoreCase bool) (*fsops.Grep, trigram.Query) {
	t.Helper()
	g, err := fsops.CompileGrep(fsops.GrepRequest{Pattern: pattern, Regex: regex, IgnoreCase: ignoreCase})
	if err != nil {
		t.Fatal(err)
	}
	return g, trigram.For(g.Needs())
}

func TestQuery(t *testing.T) {
	content := trigram.Of([]byte("func Handle(ctx context.Context) error {\n\treturn nil\n}\n"))
	tests := []struct {
		pattern           string
		regex, ignoreCase bool
		all, may          bool
	}{
		{"Handle(ctx", false, false, false, true},
		{"HANDLE(CTX", false, true, false, true},
		{"handlers", false, false, false, false},
		{"nil\n}", false, false, true, true}, // matches nothing, which the search finds out
		{"er", false, false, true, true},
		{`Handle.*error`, true, false, false, true},
		{`Handle.*panic`, true, false, false, false},
		{`(panic|return) nil`, true, false, false, true},
		{`(panic|goto) nil`, true, false, false, false},
		{`\w+`, true, false, true, true},
		{`errorfunc`, true, false, false, false},
		{"error {return", false, false, false, false}, // no trigram spans lines
	}
	for _, tt := range tests {
		_, q := queryOf(t, tt.pattern, tt.regex, tt.ignoreCase)
		if q.All() != tt.all || q.May(content) != tt.may {
			t.Errorf("%q: all %v may %v, want %v %v", tt.pattern, q.All(), q.May(content), tt.all, tt.may)
		}
	}
	if _, q := queryOf(t, "whatever", false, false); !q.May(nil) || !q.May(trigram.Signature("\x00old")) {
		t.Error("a file without a signature that is understood is no candidate")
	}
}

// pieces of contents and patterns that meet in every way that matters.
var pieces = strings.Split("needle|Needle|x|\n|\r\n| |é|"+norm.NFD.String("é")+"|ß|ſ|\u212A|k|s|K|보고서|"+norm.NFD.String("보고서")+"|\xff|\xc3|\u0301|日本語|the quick brown|zz", "|")

func text(random *rand.Rand, most int) string {
	var b strings.Builder
	for range random.IntN(most) {
		b.WriteString(pieces[random.IntN(len(pieces))])
	}
	return b.String()
}

// A file that matches is a candidate, however its content came to be.
func TestNeverMisses(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for n := range 20_000 {
		content := []byte(text(random, 8))
		signature := trigram.Of(content)
		for range random.IntN(4) {
			data := []byte(text(random, 6))
			content = append(content, data...)
			var ok bool
			if signature, ok = signature.Append(data); !ok {
				signature = trigram.Roomy(content)
			}
		}
		pattern := strings.ToValidUTF8(text(random, 4), "")
		if pattern == "" {
			continue
		}
		g, q := queryOf(t, pattern, false, n%2 == 0)
		result, err := g.SearchBytes(content, func(fsops.Hit) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if result.Hits > 0 && !q.May(signature) {
			t.Fatalf("%q matches %q and is no candidate", content, pattern)
		}
	}
}

// Signatures are small, and rule out nearly every file that does not match.
func TestSelective(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	var x trigram.Index
	var contents, signatures int
	const n = 2000
	for i := range n {
		var b strings.Builder
		for b.Len() < 8000 {
			fmt.Fprintf(&b, "%c%c%c%c%c ", 'a'+random.IntN(26), 'a'+random.IntN(12), 'a'+random.IntN(26), 'a'+random.IntN(12), 'a'+random.IntN(26))
		}
		if i == 1000 {
			b.WriteString("\nthe xylophone\n")
		}
		s := trigram.Of([]byte(b.String()))
		contents, signatures = contents+b.Len(), signatures+len(s)
		x.Put(fmt.Sprintf("d/%04d", i), s)
	}
	_, q := queryOf(t, "xylophone", false, false)
	keys, more := x.Select(q, "d/", "d0", 100)
	if more || len(keys) > 20 {
		t.Errorf("%d of %d files are candidates", len(keys), n)
	}
	if ratio := float64(signatures) / float64(contents); ratio > 0.6 {
		t.Errorf("signatures take %.2f of the contents", ratio)
	}
	if keys, more := x.Select(trigram.Query{}, "d/0999", "", 2); !more || fmt.Sprint(keys) != "[d/1000 d/1001]" {
		t.Errorf("got %v, %v", keys, more)
	}
	x.Remove("d/1000")
	if keys, _ := x.Select(trigram.Query{}, "d/0999", "d/1002", 10); fmt.Sprint(keys) != "[d/1001]" || x.Len() != n-1 {
		t.Errorf("after removal %v", keys)
	}
}

func BenchmarkOf(b *testing.B) {
	content := []byte(strings.Repeat("\tif err := s.handler.process(ctx, request.Items[i]); err != nil {\n", 30))
	b.SetBytes(int64(len(content)))
	for b.Loop() {
		trigram.Of(content)
	}
}
