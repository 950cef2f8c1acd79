package importer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// brief shows a message in one line.
func brief(m Message) string {
	out := map[Role]string{RoleUser: "user", RoleAssistant: "assistant", RoleTool: "tool"}[m.Role]
	if m.Text != "" {
		out += " " + m.Text
	}
	for _, c := range m.Calls {
		out += fmt.Sprintf(" %s=%s%s", c.ID, c.Name, c.Arguments)
	}
	for _, r := range m.Results {
		text := r.Text
		if r.Missing {
			text = "?"
		}
		out += fmt.Sprintf(" %s:%s", r.CallID, text)
	}
	return out
}

func TestLogsBecomeConversations(t *testing.T) {
	tests := map[string]struct {
		log     string
		want    []string
		skipped string
	}{
		"nothing":           {"", nil, ""},
		"blank lines":       {"\n \n\t\n", nil, ""},
		"no line end":       {`{"role":"USER","content":"hi"}`, []string{"user hi"}, ""},
		"Windows line ends": {"{\"role\":\"user\",\"content\":\"hi\"}\r\n{\"role\":\"assistant\",\"content\":\"ho\"}\r\n", []string{"user hi", "assistant ho"}, ""},
		"kinds by either name, or by fields": {
			`{"kind":"message","role":"ASSISTANT","content":"x"}` + "\n" + `{"toolCallId":"c","name":"f","input":{"a":1}}` + "\n" + `{"toolCallId":"c","name":"f","output":"y"}`,
			[]string{`assistant x c=f{"a":1}`, "tool c:y"}, "",
		},
		"every call has a result, in the order of the calls": {
			`{"type":"tool_use","toolCallId":"b","name":"f"}` + "\n" + `{"type":"tool_use","toolCallId":"a","name":"g","input":null}` + "\n" + `{"type":"tool_result","toolCallId":"a","output":"1"}` + "\n" + `{"role":"USER","content":"stop"}`,
			[]string{"assistant b=f{} a=g{}", "tool b:? a:1", "user stop"}, "",
		},
		"ids of calls that come again are told apart": {
			`{"type":"tool_use","toolCallId":"idx-0","name":"f"}` + "\n" + `{"type":"tool_result","toolCallId":"idx-0","output":"1"}` + "\n" + `{"type":"tool_use","toolCallId":"idx-0","name":"f"}` + "\n" + `{"type":"tool_result","toolCallId":"idx-0","output":"2"}`,
			[]string{"assistant idx-0=f{}", "tool idx-0:1", "assistant idx-0@3=f{}", "tool idx-0@3:2"}, "",
		},
		"a result without its call":    {`{"type":"tool_result","toolCallId":"z","output":"1"}`, nil, "a result without its call=1"},
		"a result after the next word": {`{"type":"tool_use","toolCallId":"a","name":"f"}` + "\n" + `{"role":"USER","content":"x"}` + "\n" + `{"type":"tool_result","toolCallId":"a","output":"1"}`, []string{"assistant a=f{}", "tool a:?", "user x"}, "a result without its call=1"},
		"broken lines go, the rest stays": {
			"{\"role\":\"USER\"\n[1,2]\n\"text\"\nnull\n{\"role\":7}\n{\"role\":\"USER\",\"content\":\"hi\"}\n\x00\xff\n{\"role\":\"USER\",\"con", []string{"user hi"}, "no JSON object of the format=6; of an unknown kind=1",
		},
		"kinds and roles that nobody knows": {`{"type":"compaction","role":"USER","content":"x"}` + "\n" + `{"role":"WIZARD","content":"x"}`, nil, "of an unknown kind=1; of an unknown role=1"},
		"content that is no text":           {`{"role":"USER","content":[{"text":"a"}]}` + "\n" + `{"role":"USER","content":"","blockTypes":["image"]}` + "\n" + `{"role":"USER","content":"","blockTypes":["empty"]}`, []string{`user [{"text":"a"}]`, "user [image, not in the log]"}, "without text=1"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var got []string
			skipped, err := readLog(t.Context(), strings.NewReader(tt.log), func(m Message) error {
				got = append(got, brief(m))
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("conversation (-want +got):\n%s", diff)
			}
			var lines []string
			for _, what := range slices.Sorted(maps.Keys(skipped)) {
				lines = append(lines, fmt.Sprintf("%s=%d", what, skipped[what]))
			}
			if got := strings.Join(lines, "; "); got != tt.skipped {
				t.Errorf("skipped %q, want %q", got, tt.skipped)
			}
		})
	}
}

func TestLogsAreBounded(t *testing.T) {
	long := strings.Repeat("x", maxText+10)
	log := `{"role":"USER","content":"` + strings.Repeat("y", maxLine) + "\"}\n" +
		`{"role":"USER","content":"` + long + "\"}\n" + `{"type":"tool_use","toolCallId":"` + strings.Repeat("c", 500) + `","name":"f","input":{"a":"` + long + "\"}}\n"
	var got []Message
	skipped, err := readLog(t.Context(), strings.NewReader(log), func(m Message) error {
		got = append(got, m)
		return nil
	})
	if err != nil || skipped["longer than 8 MiB"] != 1 || len(got) != 3 {
		t.Fatalf("%d messages, skipped %v, %v", len(got), skipped, err)
	}
	if n := len(got[0].Text); n > maxText+4 {
		t.Errorf("a text of %d bytes", n)
	}
	if c := got[1].Calls[0]; len(c.ID) > 210 || c.Arguments != fmt.Sprintf(`{"_left_out_bytes":%d}`, len(long)+8) {
		t.Errorf("a call with an id of %d bytes and %d bytes of arguments", len(c.ID), len(c.Arguments))
	}
}

func TestLogsEndWithTheContextAndTheReceiver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readLog(ctx, strings.NewReader("{}\n"), func(Message) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled read: %v", err)
	}
	broken := errors.New("broken")
	if _, err := readLog(t.Context(), strings.NewReader(`{"role":"USER","content":"x"}`), func(Message) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("a receiver that fails: %v", err)
	}
}
