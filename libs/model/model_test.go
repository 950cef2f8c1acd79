package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/modeltest"
	"github.com/gantry-agents/gantry/libs/model/scripted"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func ask(p model.Provider, ctx context.Context, req model.Request) (model.Response, error) {
	s, err := p.Generate(ctx, req)
	if err != nil {
		return model.Response{}, err
	}
	return model.Collect(s)
}

func request(say string) model.Request {
	return model.Request{Model: "script", Messages: []model.Message{model.User(say)}}
}

func TestErrorsCarryClassReasonAndWait(t *testing.T) {
	tests := []struct {
		kind      model.Kind
		class     error
		reason    string
		retryable bool
	}{
		{model.KindInternal, errdefs.ErrInternal, "MODEL_PROTOCOL", false},
		{model.KindBadRequest, errdefs.ErrInvalidArgument, "MODEL_BAD_REQUEST", false},
		{model.KindUnknownModel, errdefs.ErrNotFound, "MODEL_UNKNOWN", false},
		{model.KindUnsupported, errdefs.ErrUnimplemented, "MODEL_UNSUPPORTED", false},
		{model.KindAuth, errdefs.ErrFailedPrecondition, "MODEL_AUTH", false},
		{model.KindRateLimited, errdefs.ErrResourceExhausted, "MODEL_RATE_LIMITED", true},
		{model.KindOverloaded, errdefs.ErrUnavailable, "MODEL_OVERLOADED", true},
		{model.KindUnavailable, errdefs.ErrUnavailable, "MODEL_UNAVAILABLE", true},
		{model.KindTimeout, errdefs.ErrDeadlineExceeded, "MODEL_TIMEOUT", true},
		{model.KindContextOverflow, errdefs.ErrOutOfRange, "MODEL_CONTEXT_OVERFLOW", false},
	}
	for _, tt := range tests {
		t.Run(tt.reason, func(t *testing.T) {
			cause := errors.New("the cause")
			var err error = model.NewError(tt.kind, "p", "m", "it failed: %w", cause).After(7 * time.Second)
			var e *model.Error
			var public *errdefs.Error
			if !errors.As(err, &e) || !errors.As(err, &public) || !errors.Is(err, cause) {
				t.Fatalf("%v is not typed, not public or has lost its cause", err)
			}
			if !errors.Is(err, tt.class) || errdefs.ReasonOf(err) != tt.reason || model.Retryable(err) != tt.retryable || e.RetryAfter() != 7*time.Second {
				t.Errorf("class %v, reason %s, retryable %v, after %s", errdefs.ClassOf(err), errdefs.ReasonOf(err), model.Retryable(err), e.RetryAfter())
			}
			if public.RetryAfter != 7*time.Second || public.Domain != model.Domain || public.Meta["provider"] != "p" || public.Meta["model"] != "m" {
				t.Errorf("public part = %+v", public)
			}
		})
	}
}

func TestRetry(t *testing.T) {
	const limited = "{error: {kind: rate_limited}}"
	tests := map[string]struct {
		turns string
		waits []time.Duration
		kind  model.Kind // of the final error
		want  string
	}{
		"at once":              {"[{text: ok}]", nil, 0, "ok"},
		"after two failures":   {"[" + limited + ", {error: {kind: unavailable}}, {text: ok}]", []time.Duration{2 * time.Second, 4 * time.Second}, 0, "ok"},
		"no fourth attempt":    {"[" + limited + "," + limited + "," + limited + ", {text: ok}]", []time.Duration{2 * time.Second, 4 * time.Second}, model.KindRateLimited, ""},
		"as long as asked":     {"[{error: {kind: overloaded, retry_after: 9s}}, {text: ok}]", []time.Duration{9 * time.Second}, 0, "ok"},
		"not longer than max":  {"[{error: {kind: rate_limited, retry_after: 10m}}, {text: ok}]", nil, model.KindRateLimited, ""},
		"not what stays wrong": {"[{error: {kind: auth}}, {text: ok}]", nil, model.KindAuth, ""},
		"not after an event":   {"[{text: so far, error: {kind: unavailable}}, {text: ok}]", nil, model.KindUnavailable, "so far"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var waits []time.Duration
			policy := model.DefaultRetryPolicy()
			policy.Jitter = 0
			policy.Sleep = func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil }
			r, err := ask(model.Retry(scripted.Must("turns: "+tt.turns), policy), t.Context(), request("x"))
			if kind, ok := model.KindOf(err); ok != (tt.kind != 0) || kind != tt.kind {
				t.Errorf("error = %v, want kind %v", err, tt.kind)
			}
			if r.Message.Text() != tt.want || !slices.Equal(waits, tt.waits) {
				t.Errorf("answer %q after waits %v, want %q after %v", r.Message.Text(), waits, tt.want, tt.waits)
			}
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := ask(model.Retry(scripted.Must("turns: [{error: {kind: unavailable}, always: true}]"), model.DefaultRetryPolicy()), ctx, request("x"))
		if kind, _ := model.KindOf(err); kind != model.KindUnavailable || time.Since(start) != time.Second {
			t.Errorf("error %v after %s, want the provider's after 1s", err, time.Since(start))
		}
	})
}

func TestFallback(t *testing.T) {
	tests := map[string]struct {
		primary string
		want    string
		kind    model.Kind
		told    int
	}{
		"primary is well":            {"[{text: first}]", "first", 0, 0},
		"first signal is an error":   {"[{error: {kind: unavailable}}]", "second", 0, 1},
		"unknown model":              {"[{error: {kind: unknown_model}}]", "second", 0, 1},
		"the request is at fault":    {"[{error: {kind: bad_request}}]", "", model.KindBadRequest, 0},
		"overflow is for compaction": {"[{error: {kind: context_overflow}}]", "", model.KindContextOverflow, 0},
		"not after an event":         {"[{text: so far, error: {kind: unavailable}}]", "so far", model.KindUnavailable, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			second := scripted.Must("{models: [{name: other}], turns: [{text: second}]}")
			told := 0
			p := model.Fallback(scripted.Must("turns: "+tt.primary), func(model.Target, error) { told++ }, model.Target{Provider: second, Model: "other"})
			r, err := ask(p, t.Context(), request("x"))
			if kind, _ := model.KindOf(err); kind != tt.kind || r.Message.Text() != tt.want || told != tt.told {
				t.Errorf("answer %q, error %v, told %d times", r.Message.Text(), err, told)
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	limits := model.Timeouts{FirstEvent: 10 * time.Second, Idle: 2 * time.Second, Total: time.Minute}
	tests := map[string]struct {
		turn  string
		after time.Duration
		words string
	}{
		"first event": {"{text: x, delay: 1h}", 10 * time.Second, "no answer within"},
		"silence":     {"{text: abcdefghijklmnopqrstuvwxyz, hang: true}", 2 * time.Second, "silence for"},
		"total":       {"{text: " + strings.Repeat("a", 400) + ", piece: 4, interval: 1s}", time.Minute, "not done within"},
		"in time":     {"{text: abcdefgh, piece: 4, delay: 9s, interval: 1s}", 12 * time.Second, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				_, err := ask(model.WithTimeouts(scripted.Must("turns: ["+tt.turn+"]"), limits), t.Context(), request("x"))
				if time.Since(start) != tt.after {
					t.Errorf("ended after %s, want %s", time.Since(start), tt.after)
				}
				if kind, ok := model.KindOf(err); ok != (tt.words != "") || ok && (kind != model.KindTimeout || !strings.Contains(err.Error(), tt.words)) {
					t.Errorf("error = %v, want a time-out with %q", err, tt.words)
				}
			})
		})
	}
}

func TestASlowReaderIsNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := model.WithTimeouts(scripted.Must("turns: [{text: abcdefgh, piece: 4}]"), model.Timeouts{Idle: time.Second}).Generate(t.Context(), request("x"))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for range 4 {
			if _, err := s.Next(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
		}
	})
}

// Wrappers must pass all that the provider under them passes.
func TestWrappersPassTheSuite(t *testing.T) {
	wrap := map[string]func(model.Provider) model.Provider{
		"retry":    func(p model.Provider) model.Provider { return model.Retry(p, model.RetryPolicy{Attempts: 1}) },
		"fallback": func(p model.Provider) model.Provider { return model.Fallback(p, nil) },
		"timeouts": func(p model.Provider) model.Provider { return model.WithTimeouts(p, model.DefaultTimeouts()) },
		"all": func(p model.Provider) model.Provider {
			return model.Fallback(model.Retry(model.WithTimeouts(p, model.DefaultTimeouts()), model.RetryPolicy{Attempts: 1}), nil)
		},
	}
	script, err := scripted.Load("scripted/testdata/conformance.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for name, w := range wrap {
		t.Run(name, func(t *testing.T) {
			inner := scripted.New(script)
			if model.Unwrap(w(inner)) != model.Provider(inner) {
				t.Error("Unwrap does not lead to the provider")
			}
			modeltest.Run(testkit.Wrap(t), modeltest.Profile{
				New:   func(testing.TB) model.Provider { return w(scripted.New(script)) },
				Model: "script", Window: 2000, Text: "hello", Answer: "Hello from the script", Unicode: "greet", UnicodeAnswer: "你好", Long: "long",
				UnknownModel: "nobody", Overflow: strings.Repeat("word ", 4000), Schema: "json", ResponseSchema: json.RawMessage(`{"type":"object"}`),
				Failures: []modeltest.Failure{{Name: "limited", Say: "limited", Kind: model.KindRateLimited, RetryAfter: 3 * time.Second}},
				Broken:   []modeltest.Failure{{Name: "breaks", Say: "breaks", Kind: model.KindUnavailable}},
			})
		})
	}
}

func TestCollect(t *testing.T) {
	delta := func(i int, id, name, args string) model.Event {
		return model.Event{Type: model.EventToolCall, ToolCall: &model.ToolCallDelta{Index: i, ID: id, Name: name, Arguments: args}}
	}
	r, err := model.Collect(model.StreamOf(t.Context(),
		model.Event{Type: model.EventThinking, Text: "hm"}, model.Event{Type: model.EventText, Text: "a"}, model.Event{Type: model.EventText, Text: "b"},
		delta(0, "x", "f", `{"n"`), delta(1, "y", "g", ""), delta(0, "", "", `:1}`),
		model.Event{Type: model.EventUsage, Usage: &model.Usage{InputTokens: 1}}, model.Event{Type: model.EventUsage, Usage: &model.Usage{InputTokens: 2, OutputTokens: 3}},
		model.Event{Type: model.EventFinish, Finish: model.FinishToolCalls}))
	if err != nil {
		t.Fatal(err)
	}
	want := model.Response{
		Message: model.Assistant(model.Thinking("hm"), model.Text("ab"), model.Call("x", "f", json.RawMessage(`{"n":1}`)), model.Call("y", "g", nil)),
		Usage:   model.Usage{InputTokens: 2, OutputTokens: 3}, Finish: model.FinishToolCalls,
	}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
}

func TestEventsOfCutsBetweenCharacters(t *testing.T) {
	const text = "aé你🎉z"
	for size := range 8 {
		got := ""
		for _, ev := range model.EventsOf(model.Response{Message: model.Assistant(model.Text(text))}, size) {
			if !json.Valid([]byte(`"`+ev.Text+`"`)) || strings.ContainsRune(ev.Text, '\uFFFD') {
				t.Errorf("size %d: piece %q", size, ev.Text)
			}
			got += ev.Text
		}
		if got != text {
			t.Errorf("size %d: %q", size, got)
		}
	}
}
