package scripted_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/modeltest"
	"github.com/gantry-agents/gantry/libs/model/scripted"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func TestConformance(t *testing.T) {
	script, err := scripted.Load("testdata/conformance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	modeltest.Run(testkit.Wrap(t), modeltest.Profile{
		New:   func(testing.TB) model.Provider { return scripted.New(script) },
		Model: "script", Window: 2000,
		Text: "hello", Answer: "Hello from the script", Unicode: "greet", UnicodeAnswer: "Grüße, 你好, 🎉", Long: "long",
		UnknownModel: "nobody", Overflow: strings.Repeat("word ", 4000),
		Tool: &modeltest.ToolCase{
			Spec: model.ToolSpec{Name: "get_weather", Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)},
			Say:  "weather", Arguments: `{"city":"Paris"}`, Result: "sunny", Answer: "sunny in Paris",
		},
		Schema: "json", ResponseSchema: json.RawMessage(`{"type":"object"}`),
		Failures: []modeltest.Failure{
			{Name: "rate limit", Say: "limited", Kind: model.KindRateLimited, RetryAfter: 3 * time.Second},
			{Name: "overloaded", Say: "overloaded", Kind: model.KindOverloaded},
		},
		Broken: []modeltest.Failure{{Name: "connection", Say: "breaks", Kind: model.KindUnavailable}},
	})
}

func TestParseRefuses(t *testing.T) {
	for name, script := range map[string]string{
		"unknown field":  "turns: [{txt: hi}]",
		"nothing said":   "turns: [{when: {user: x}}]",
		"bad pattern":    "turns: [{text: x, when: {user: '('}}]",
		"unknown kind":   "turns: [{error: {kind: sad}}]",
		"call of nobody": "turns: [{calls: [{arguments: {}}]}]",
		"tokens":         "turns: [{text: x, tokens: [1]}]",
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := scripted.Parse([]byte(script)); err == nil {
				t.Error("no error")
			}
		})
	}
}

func TestTurnsAreUsedUp(t *testing.T) {
	p := scripted.Must("turns: [{text: one}, {text: two, times: 2}, {text: rest, always: true}]")
	if got := p.Remaining(); got != 2 {
		t.Errorf("Remaining = %d before, want 2", got)
	}
	var got []string
	for range 5 {
		got = append(got, say(t, p, "x").Message.Text())
	}
	if want := "one two two rest rest"; strings.Join(got, " ") != want {
		t.Errorf("answers = %q, want %q", got, want)
	}
	if p.Remaining() != 0 || len(p.Requests()) != 5 {
		t.Errorf("Remaining = %d, %d requests", p.Remaining(), len(p.Requests()))
	}
}

func TestNoTurnFits(t *testing.T) {
	p := scripted.Must("turns: [{text: x, when: {user: yes}}]")
	_, err := p.Generate(t.Context(), model.Request{Model: "script", Messages: []model.Message{model.User("no, thanks")}})
	if kind, _ := model.KindOf(err); kind != model.KindBadRequest || !strings.Contains(err.Error(), "no, thanks") {
		t.Errorf("error = %v, want a bad request that quotes the message", err)
	}
}

func TestDelays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := scripted.Must("turns: [{text: abcdefgh, piece: 4, delay: 10s, interval: 1s}]")
		start := time.Now()
		say(t, p, "x")
		if got, want := time.Since(start), 13*time.Second; got != want { // 10 s, then three more events and 1 s each
			t.Errorf("the answer took %s, want %s", got, want)
		}
	})
}

func say(t *testing.T, p model.Provider, text string) model.Response {
	t.Helper()
	s, err := p.Generate(t.Context(), model.Request{Model: "script", Messages: []model.Message{model.User(text)}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.Collect(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
