package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

func run(t *testing.T, in string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(t.Context(), args, &Env{In: strings.NewReader(in), Out: &o, Err: &e, Version: "test"})
	return code, o.String(), e.String()
}

func TestExplainSaysWhatToDo(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"reason and way out", errdefs.New(errdefs.ErrNotFound, "d", "AGENT_NOT_FOUND", "there is no agent %q", "x"), `there is no agent "x" (AGENT_NOT_FOUND): gantry agents list shows the agents`},
		{"no server", errdefs.New(errdefs.ErrUnavailable, "d", "", "unavailable"), "unavailable: nothing answers at the address: gantry up starts the suite, --addr names another, --local needs none"},
		{"come again", errdefs.New(errdefs.ErrResourceExhausted, "d", "TOO_MANY_RUNS", "too many").RetryIn(3 * time.Second), "too many (TOO_MANY_RUNS): try again in 3s"},
		{"one line", errdefs.New(errdefs.ErrInternal, "d", "", "a\nb"), "a b"},
	}
	for _, tt := range tests {
		if got := Explain(tt.err); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestWrongCommandLinesAreOneLineAndCodeTwo(t *testing.T) {
	for _, args := range [][]string{{"nothing"}, {"call", "--no-such-flag"}, {"call", "--scope", "world", "hi"}, {"fs", "cat"}, {"run", "steer", "x"}} {
		code, _, errs := run(t, "", args...)
		lines := strings.Split(strings.TrimSpace(errs), "\n")
		if last := lines[len(lines)-1]; code != ExitUsage || !strings.HasPrefix(last, "gantry: ") {
			t.Errorf("%v: code %d, last line %q", args, code, last)
		}
	}
}

func TestHelpIsNoError(t *testing.T) {
	for _, args := range [][]string{{}, {"--help"}, {"call", "--help"}, {"fs", "grep", "--help"}} {
		if code, out, errs := run(t, "", args...); code != ExitOK || !strings.Contains(out, "Usage: gantry") || errs != "" {
			t.Errorf("%v: code %d, out %.80q, err %q", args, code, out, errs)
		}
	}
}

func TestMalformedIdentityIsRefusedBeforeAnythingHappens(t *testing.T) {
	dir := t.TempDir() + "/data"
	code, _, errs := run(t, "", "call", "--local", "--data", dir, "--user", "a\nb", "hi")
	if code != ExitFailed || !strings.Contains(errs, "IDENTITY_MALFORMED") || strings.Count(errs, "\n") != 1 {
		t.Errorf("code %d, %q", code, errs)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("the data directory was made all the same")
	}
}

func TestWhatOthersWroteCantSteerTheTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                    "plain",
		"two\nlines\tand a tab":    "two\nlines\tand a tab",
		"e\x1b[31mRED\x1b]0;pwn\a": `e\x1b[31mRED\x1b]0;pwn\a`,
		"\u009b2J":                 `\u009b2J`,
		"Größe 数据":                 "Größe 数据",
		"over\rwrite":              `over\rwrite`,
	} {
		if got := Printable(in); got != want {
			t.Errorf("Printable(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestErrorsAreJSONWhereJSONWasAskedFor(t *testing.T) {
	code, out, errs := run(t, "", "call", "--json", "--local", "--data", t.TempDir(), "--user", "a\nb", "hi")
	var got struct {
		Error struct{ Reason, Message string }
	}
	if err := json.Unmarshal([]byte(errs), &got); err != nil || code != ExitFailed || out != "" || got.Error.Reason != "IDENTITY_MALFORMED" || got.Error.Message == "" {
		t.Errorf("code %d, out %q, err %q (%v)", code, out, errs, err)
	}
}
