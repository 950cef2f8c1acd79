package openai_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/modeltest"
	"github.com/gantry-agents/gantry/libs/model/openai"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/libs/testkit/ollamatiny"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func provider(tb testing.TB, config openai.Config) *openai.Provider {
	tb.Helper()
	config.HTTP = &http.Client{Transport: &http.Transport{}}
	tb.Cleanup(config.HTTP.CloseIdleConnections)
	p, err := openai.New(config)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

var weather = model.ToolSpec{Name: ollamatiny.WeatherTool, Description: "weather of a city", Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}

func TestConformanceOnRecordings(t *testing.T) {
	server := newRecorded(t)
	modeltest.Run(testkit.Wrap(t), modeltest.Profile{
		New: func(tb testing.TB) model.Provider {
			return provider(tb, openai.Config{BaseURL: server.URL + "/v1", Windows: map[string]int{"rec": 4096}})
		},
		Model: "recorded", Window: 4096,
		Text: "hello", Answer: "Hello from a recording.", Unicode: "greet", UnicodeAnswer: "Grüße, 你好, 🎉", Long: "long",
		Tool:   &modeltest.ToolCase{Spec: weather, Say: "weather", Arguments: `{"city":"Paris"}`, Result: "sunny", Answer: "sunny in Paris"},
		Schema: "json", ResponseSchema: json.RawMessage(`{"type":"object"}`),
		UnknownModel: "nobody", Overflow: strings.Repeat("word ", 4000), EmbedModel: "recorded",
		Failures: []modeltest.Failure{
			{Name: "rate limit", Say: "limited", Kind: model.KindRateLimited, RetryAfter: 3 * time.Second},
			{Name: "rate limit in ms", Say: "limited-ms", Kind: model.KindRateLimited, RetryAfter: 1500 * time.Millisecond},
			{Name: "quota", Say: "quota", Kind: model.KindAuth},
			{Name: "overflow by words", Say: "overflow-words", Kind: model.KindContextOverflow},
			{Name: "key", Say: "key", Kind: model.KindAuth},
			{Name: "forbidden", Say: "forbidden", Kind: model.KindAuth},
			{Name: "busy", Say: "busy", Kind: model.KindOverloaded},
			{Name: "slow", Say: "slow", Kind: model.KindTimeout},
			{Name: "bad", Say: "bad", Kind: model.KindBadRequest},
			{Name: "no tools", Say: "no-tools", Kind: model.KindUnsupported},
			{Name: "gateway", Say: "html", Kind: model.KindUnavailable},
		},
		Broken: []modeltest.Failure{
			{Name: "cut off", Say: "cut", Kind: model.KindUnavailable},
			{Name: "error inside", Say: "error-inside", Kind: model.KindUnavailable},
			{Name: "overloaded inside", Say: "overloaded-inside", Kind: model.KindOverloaded},
			{Name: "not JSON", Say: "not-json", Kind: model.KindInternal},
		},
	})
}

func TestConformanceOnOllama(t *testing.T) {
	url := testkit.Ollama(t)
	modeltest.Run(testkit.Wrap(t), modeltest.Profile{
		New: func(tb testing.TB) model.Provider {
			return provider(tb, openai.Config{Name: "local", BaseURL: url + "/v1", MaxTokensField: "max_tokens", Windows: map[string]int{"tiny": ollamatiny.Window}})
		},
		Model: testkit.OllamaModel, Window: ollamatiny.Window,
		Text: "who are you?", Answer: ollamatiny.Hello, Unicode: ollamatiny.SayUnicode, UnicodeAnswer: ollamatiny.Unicode, Long: ollamatiny.SayLong,
		Tool:   &modeltest.ToolCase{Spec: weather, Say: ollamatiny.SayWeather, Arguments: ollamatiny.WeatherArguments, Result: "sunny", Answer: ollamatiny.AfterTool},
		Schema: ollamatiny.SayJSON, ResponseSchema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`),
		UnknownModel: "nobody:latest", EmbedModel: testkit.OllamaEmbedModel,
	})
}

func collect(t *testing.T, p model.Provider, say string) (model.Response, error) {
	t.Helper()
	s, err := p.Generate(t.Context(), model.Request{Model: "recorded", Messages: []model.Message{model.User(say)}})
	if err != nil {
		return model.Response{}, err
	}
	return model.Collect(s)
}

// Compatible servers differ: these are the differences that were met.
func TestDialects(t *testing.T) {
	p := provider(t, openai.Config{BaseURL: newRecorded(t).URL + "/v1"})
	call := func(id, name, args string) model.Block { return model.Call(id, name, json.RawMessage(args)) }
	tests := map[string]struct {
		blocks []model.Block
		finish model.FinishReason
	}{
		"no-index":    {[]model.Block{call("", "f", `{"n":1}`), call("", "g", `{}`)}, model.FinishToolCalls},
		"interleaved": {[]model.Block{call("a", "f", `{"n":1}`), call("b", "g", `{"m":2}`)}, model.FinishToolCalls},
		"no-done":     {[]model.Block{model.Text("all of it")}, model.FinishStop},
		"thinking":    {[]model.Block{model.Thinking("let me see"), model.Text("42")}, model.FinishStop},
		"length":      {[]model.Block{model.Text("cut")}, model.FinishLength},
		"filtered":    {[]model.Block{model.Text("cut")}, model.FinishContentFilter},
		"crlf":        {[]model.Block{model.Text("with both")}, model.FinishStop},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := collect(t, p, name)
			if err != nil {
				t.Fatal(err)
			}
			for i, b := range r.Message.Blocks {
				if b.ToolCall != nil && i < len(tt.blocks) && tt.blocks[i].ToolCall.ID == "" {
					if b.ToolCall.ID == "" {
						t.Errorf("call %d got no id", i)
					}
					b.ToolCall.ID = ""
				}
			}
			if diff := cmp.Diff(tt.blocks, r.Message.Blocks); diff != "" || r.Finish != tt.finish {
				t.Errorf("finish %q, blocks (-want +got):\n%s", r.Finish, diff)
			}
		})
	}
}

func TestCachedTokensAreCounted(t *testing.T) {
	r, err := collect(t, provider(t, openai.Config{BaseURL: newRecorded(t).URL + "/v1"}), "hello")
	if want := (model.Usage{InputTokens: 11, OutputTokens: 7, CachedInputTokens: 4}); err != nil || r.Usage != want {
		t.Errorf("usage = %+v, %v; want %+v", r.Usage, err, want)
	}
}

func TestRequestOnTheWire(t *testing.T) {
	server := newRecorded(t)
	p := provider(t, openai.Config{BaseURL: server.URL + "/v1/", APIKey: "sk-test", Headers: map[string]string{"X-Team": "a"}})
	temperature := 0.5
	s, err := p.Generate(t.Context(), model.Request{
		Model: "recorded", System: "be brief", Temperature: &temperature, MaxTokens: 9, Stop: []string{"END"}, Tools: []model.ToolSpec{weather, {Name: "now"}}, ToolChoice: "now",
		Messages: []model.Message{
			{Role: model.RoleUser, Blocks: []model.Block{model.Text("look"), {Type: model.BlockImage, Image: &model.Image{MediaType: "image/png", Data: []byte{1, 2}}}}},
			model.Assistant(model.Thinking("hm"), model.Call("c1", "now", nil)),
			model.ToolResults(model.Result("c1", "now", "no clock", true)),
			model.User("hello"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Collect(s); err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(`{
		"model": "recorded", "stream": true, "stream_options": {"include_usage": true}, "temperature": 0.5, "max_completion_tokens": 9, "stop": ["END"],
		"tool_choice": {"type": "function", "function": {"name": "now"}},
		"tools": [
			{"type": "function", "function": {"name": "get_weather", "description": "weather of a city", "parameters": {"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}},
			{"type": "function", "function": {"name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}],
		"messages": [
			{"role": "system", "content": "be brief"},
			{"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQI="}}]},
			{"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "now", "arguments": "{}"}}]},
			{"role": "tool", "content": "Error: no clock", "tool_call_id": "c1"},
			{"role": "user", "content": "hello"}]
	}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, server.last); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
	if server.head.Get("Authorization") != "Bearer sk-test" || server.head.Get("X-Team") != "a" {
		t.Errorf("headers = %v", server.head)
	}
}

func TestTheKeyIsNotInErrors(t *testing.T) {
	p := provider(t, openai.Config{BaseURL: newRecorded(t).URL + "/v1", APIKey: "sk-very-secret"})
	if _, err := collect(t, p, "key"); err == nil || strings.Contains(err.Error(), "sk-very-secret") {
		t.Errorf("error = %v", err)
	}
}

func TestWindows(t *testing.T) {
	p := provider(t, openai.Config{BaseURL: newRecorded(t).URL + "/v1"})
	list, err := p.List(t.Context())
	if err != nil || len(list) != 2 || list[0].Name != "another" || list[0].ContextTokens != 0 {
		t.Errorf("List = %+v, %v; an unknown window is 0", list, err)
	}
}
