package offline

import (
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/model"
)

// Tools say the same things in different forms.
func TestPlainTextOfResults(t *testing.T) {
	for in, want := range map[string]string{
		"just text":                 "just text",
		"exit code 0\nhello\nworld": "hello\nworld",
		"Exit code: 0\n\nhello\n":   "hello\n",
		"exit code 0":               "",
		`{"exit_code":0,"stdout":"hello\n","stderr":""}`:            "hello\n",
		`{"path":"a.md","content":"# A\n"}`:                         "# A\n",
		"1\tone\n2\ttwo\n":                                          "one\ntwo\n",
		"     1→one\n     2→two":                                    "one\ntwo",
		"line\n[more follows: read again with offset=9; the file…]": "line",
		"[a.md is empty]":                                           "",
		"[end of file: a.md has 3 lines]":                           "",
		"[x] a box that is ticked":                                  "[x] a box that is ticked",
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestFailedCommandIsNoSuccess(t *testing.T) {
	for _, out := range []string{"exit code 2\nboom", "Exit code: 1\n\nboom", `{"exit_code":127,"stderr":"boom"}`} {
		one := step(t, model.User("run `x` and save the output to y.txt"))
		two := step(t, model.User("run `x` and save the output to y.txt"), one, results(one, false, out))
		if called(two) != "" || !strings.Contains(two.Text(), "no result to write") {
			t.Errorf("%q: calls %q, answer:\n%s", out, called(two), two.Text())
		}
	}
}

func TestChildThatGoesOnAsATask(t *testing.T) {
	one := step(t, model.User("ask the reviewer agent to look at a.txt"))
	two := step(t, model.User("ask the reviewer agent to look at a.txt"), one, results(one, false, "Task t-12.a works in the background. Its result will be delivered here; task_wait waits for it."))
	if calls := two.ToolCalls(); len(calls) != 1 || string(calls[0].Arguments) != `{"task_ids":["t-12.a"]}` {
		t.Errorf("calls = %+v, want task_wait for t-12.a", calls)
	}
	plainAnswer := step(t, model.User("ask the reviewer agent to look at a.txt"), one, results(one, false, "Looks fine."))
	if called(plainAnswer) != "" || !strings.Contains(plainAnswer.Text(), "Looks fine.") {
		t.Errorf("calls %q, answer %q", called(plainAnswer), plainAnswer.Text())
	}
}

func TestSearchResultsInOtherForms(t *testing.T) {
	for _, result := range []string{
		"MEMORY.md#3: My favourite tea is oolong\nmemory/2026-01-31.md#1: the tea shop is shut",
		"session abc, event 4, user: My favourite tea is oolong",
		`{"hits":[{"path":"MEMORY.md","snippet":"My favourite tea is oolong"}]}`,
		"- My favourite tea is oolong",
	} {
		one := step(t, model.User("What is my favourite tea?"))
		two := step(t, model.User("What is my favourite tea?"), one, results(one, false, result))
		if !strings.HasPrefix(two.Text(), "From memory: My favourite tea is oolong\n") {
			t.Errorf("%q leads to:\n%s%s", result, two.Text(), called(two))
		}
	}
}
