package figures_test

import (
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/figures"
)

func TestReportIsOneLineThatSaysWhatIsMet(t *testing.T) {
	r := &figures.Report{Command: "count"}
	r.Tell("note", "a\nb")
	r.AtMost("failures", 0, 0)
	if !r.OK() {
		t.Error("a goal that is just met counts as missed")
	}
	r.AtLeast("passes", 2, 3)
	if r.OK() {
		t.Error("a missed goal counts as met")
	}
	var out strings.Builder
	if err := r.Write(&out); err != nil {
		t.Fatal(err)
	}
	want := `{"command":"count","figures":[{"name":"note","value":"a\nb","goal":"","ok":true},{"name":"failures","value":0,"goal":"<= 0","ok":true},{"name":"passes","value":2,"goal":">= 3","ok":false}]}` + "\n"
	if out.String() != want {
		t.Errorf("got  %swant %s", out.String(), want)
	}
}
