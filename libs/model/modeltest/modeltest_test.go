package modeltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/modeltest"
	"github.com/gantry-agents/gantry/libs/model/scripted"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// reference is a sound provider with everything, for the suite to be spoiled over.
func reference(spoil func(model.Provider) model.Provider) modeltest.Profile {
	const script = `
models: [{name: script, context_tokens: 2000}]
turns:
  - {always: true, when: {user: "^hello"}, text: "Hello from the script, in pieces."}
  - {always: true, when: {user: "^greet"}, text: "Grüße, 你好, 🎉 and more of it"}
  - {always: true, when: {user: "^long"}, text: "one two three four five six seven eight nine ten", piece: 4, interval: 5ms, hang: true}
  - {always: true, when: {user: "^weather", offers: get_weather, step: 1}, calls: [{name: get_weather, arguments: {city: Paris}}]}
  - {always: true, when: {user: "^weather", step: 1}, text: "I may not look outside."}
  - {always: true, when: {user: "^json"}, text: '{"ok": true, "why": "asked"}'}
  - {always: true, when: {tool: get_weather, result: sunny}, text: "It is sunny in Paris."}
  - {always: true, when: {user: "^limited"}, error: {kind: rate_limited, retry_after: 3s}}
  - {always: true, when: {user: "^breaks"}, text: "so far so", calls: [{name: f, raw_arguments: '{"a": '}], error: {kind: unavailable}}
`
	return modeltest.Profile{
		New:   func(testing.TB) model.Provider { return spoil(scripted.Must(script)) },
		Model: "script", Window: 2000,
		Text: "hello", Answer: "Hello from the script", Unicode: "greet", UnicodeAnswer: "Grüße, 你好, 🎉", Long: "long",
		UnknownModel: "nobody", Overflow: string(make([]byte, 20000)),
		Tool: &modeltest.ToolCase{
			Spec: model.ToolSpec{Name: "get_weather", Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}}}`)},
			Say:  "weather", Arguments: `{"city":"Paris"}`, Result: "sunny", Answer: "sunny in Paris",
		},
		Schema: "json", ResponseSchema: json.RawMessage(`{"type":"object"}`),
		Failures: []modeltest.Failure{{Name: "rate limit", Say: "limited", Kind: model.KindRateLimited, RetryAfter: 3 * time.Second}},
		Broken:   []modeltest.Failure{{Name: "connection", Say: "breaks", Kind: model.KindUnavailable}},
		Patience: 2 * time.Second,
	}
}

// faulty is a provider with one fault.
type faulty struct {
	model.Provider
	generate func(context.Context, model.Request) (model.Stream, error)
}

func (f faulty) Generate(ctx context.Context, req model.Request) (model.Stream, error) {
	return f.generate(ctx, req)
}

type stream struct {
	model.Stream
	next func() (model.Event, error)
}

func (s stream) Next() (model.Event, error) { return s.next() }

// onStream makes a fault of the stream.
func onStream(next func(model.Stream) (model.Event, error)) func(model.Provider) model.Provider {
	return func(p model.Provider) model.Provider {
		return faulty{p, func(ctx context.Context, req model.Request) (model.Stream, error) {
			s, err := p.Generate(ctx, req)
			if err != nil {
				return nil, err
			}
			return stream{s, func() (model.Event, error) { return next(s) }}, nil
		}}
	}
}

func TestSuiteNoticesFaults(t *testing.T) {
	sound := reference(func(p model.Provider) model.Provider { return p })
	faults := map[string]func(model.Provider) model.Provider{
		"drops the finish": onStream(func(s model.Stream) (model.Event, error) {
			ev, err := s.Next()
			if err == nil && ev.Type == model.EventFinish {
				return model.Event{}, io.EOF
			}
			return ev, err
		}),
		"cuts characters": onStream(func(s model.Stream) (model.Event, error) {
			ev, err := s.Next()
			if len(ev.Text) > 3 {
				ev.Text = ev.Text[:len(ev.Text)-1]
			}
			return ev, err
		}),
		"forgets the call's id": onStream(func(s model.Stream) (model.Event, error) {
			ev, err := s.Next()
			if ev.ToolCall != nil {
				ev.ToolCall.ID = ""
			}
			return ev, err
		}),
		"untyped errors": onStream(func(s model.Stream) (model.Event, error) {
			ev, err := s.Next()
			if err != nil && !errors.Is(err, io.EOF) {
				err = errors.New("something went wrong")
			}
			return ev, err
		}),
		"ignores the context": func(p model.Provider) model.Provider {
			return faulty{p, func(_ context.Context, req model.Request) (model.Stream, error) {
				return p.Generate(context.Background(), req)
			}}
		},
		"does not stream": func(p model.Provider) model.Provider {
			return faulty{p, func(ctx context.Context, req model.Request) (model.Stream, error) {
				s, err := p.Generate(ctx, req)
				if err != nil {
					return nil, err
				}
				r, err := model.Collect(s)
				if err != nil {
					return nil, err
				}
				return model.StreamOf(ctx, model.EventsOf(r, 1<<20)...), nil
			}}
		},
		"takes any model": func(p model.Provider) model.Provider {
			return faulty{p, func(ctx context.Context, req model.Request) (model.Stream, error) {
				req.Model = "script"
				return p.Generate(ctx, req)
			}}
		},
		"changes the request": func(p model.Provider) model.Provider {
			return faulty{p, func(ctx context.Context, req model.Request) (model.Stream, error) {
				defer func() {
					if len(req.Messages) > 0 {
						req.Messages[0].Origin = model.OriginSteer
					}
				}()
				return p.Generate(ctx, req)
			}}
		},
	}
	if got := suiteFailures(sound); len(got) != 0 {
		t.Errorf("the suite fails on a sound provider: %q", got)
	}
	for name, spoil := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := suiteFailures(reference(spoil)); len(got) == 0 {
				t.Error("the suite does not notice")
			}
		})
	}
}

func suiteFailures(p modeltest.Profile) []string {
	return testkit.Failures(func(t testkit.T) { modeltest.Run(t, p) })
}
