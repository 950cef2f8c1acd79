package ollama_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/modeltest"
	"github.com/gantry-agents/gantry/libs/model/ollama"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/libs/testkit/ollamatiny"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func provider(tb testing.TB, url string) *ollama.Provider {
	tb.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	tb.Cleanup(client.CloseIdleConnections)
	p, err := ollama.New(ollama.Config{BaseURL: url, Threads: 1, HTTP: client})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func TestConformance(t *testing.T) {
	url := testkit.Ollama(t)
	modeltest.Run(testkit.Wrap(t), modeltest.Profile{
		New:   func(tb testing.TB) model.Provider { return provider(tb, url) },
		Model: testkit.OllamaModel, Window: ollamatiny.Window,
		Text: "who are you?", Answer: ollamatiny.Hello, Unicode: ollamatiny.SayUnicode, UnicodeAnswer: ollamatiny.Unicode, Long: ollamatiny.SayLong,
		Tool: &modeltest.ToolCase{
			Spec: model.ToolSpec{Name: ollamatiny.WeatherTool, Description: "weather of a city", Schema: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string","description":"name"}},"required":["city"]}`)},
			Say:  ollamatiny.SayWeather, Arguments: ollamatiny.WeatherArguments, Result: "sunny", Answer: ollamatiny.AfterTool,
		},
		Schema: ollamatiny.SayJSON, ResponseSchema: json.RawMessage(`{"type":"object","properties":{"answer":{"type":"string"}},"required":["answer"]}`),
		UnknownModel: "nobody:latest", Overflow: strings.Repeat("word ", 4000),
		EmbedModel: testkit.OllamaEmbedModel,
	})
}

func TestLimits(t *testing.T) {
	p := provider(t, testkit.Ollama(t))
	for name, tt := range map[string]struct {
		change func(*model.Request)
		finish model.FinishReason
		most   int // output tokens
	}{
		"max tokens": {func(r *model.Request) { r.MaxTokens = 7 }, model.FinishLength, 7},
		"window":     {func(r *model.Request) { r.ContextTokens = 128 }, model.FinishLength, 128},
		"stop":       {func(r *model.Request) { r.Stop = []string{"five"} }, model.FinishStop, 6},
	} {
		t.Run(name, func(t *testing.T) {
			req := model.Request{Model: testkit.OllamaModel, Messages: []model.Message{model.User(ollamatiny.SayLong)}}
			tt.change(&req)
			s, err := p.Generate(t.Context(), req)
			if err != nil {
				t.Fatal(err)
			}
			r, err := model.Collect(s)
			if err != nil {
				t.Fatal(err)
			}
			if r.Finish != tt.finish || r.Usage.OutputTokens > tt.most {
				t.Errorf("finish %q after %d tokens, want %q after at most %d: %q", r.Finish, r.Usage.OutputTokens, tt.finish, tt.most, r.Message.Text())
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	p := provider(t, testkit.Ollama(t))
	say := []model.Message{model.User("x")}
	for name, err := range map[string]error{
		"chat with an embedding model": generate(t, p, model.Request{Model: testkit.OllamaEmbedModel, Messages: say}),
		"embed with a chat model": func() error {
			_, err := p.Embed(t.Context(), model.EmbedRequest{Model: testkit.OllamaModel, Texts: []string{"x"}})
			return err
		}(),
	} {
		if kind, _ := model.KindOf(err); kind != model.KindUnsupported {
			t.Errorf("%s: %v, want unsupported", name, err)
		}
	}
}

func generate(t *testing.T, p model.Provider, req model.Request) error {
	s, err := p.Generate(t.Context(), req)
	if err != nil {
		return err
	}
	_, err = model.Collect(s)
	return err
}

// What a real server does seldom is played by one that does it always.
func TestErrors(t *testing.T) {
	tests := map[string]struct {
		status int
		body   string
		kind   model.Kind
	}{
		"busy":           {503, `{"error":"server busy, please try again.  maximum pending requests exceeded"}`, model.KindOverloaded},
		"limited":        {429, `{"error":"slow down"}`, model.KindRateLimited},
		"login":          {401, `{"signin_url":"https://example.org"}`, model.KindAuth},
		"crashed":        {500, `{"error":"llama runner process has terminated"}`, model.KindUnavailable},
		"overflow":       {400, `{"error":"the input length exceeds the context length"}`, model.KindContextOverflow},
		"no JSON":        {502, `<html>bad gateway</html>`, model.KindUnavailable},
		"inside":         {200, `{"message":{"role":"assistant","content":"so far"}}` + "\n" + `{"error":"an error was encountered while running the model"}`, model.KindUnavailable},
		"breaks off":     {200, `{"message":{"role":"assistant","content":"so far"}}`, model.KindUnavailable},
		"does not think": {400, `{"error":"\"x\" does not support thinking"}`, model.KindUnsupported},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/api/show") {
					w.Write([]byte(`{"capabilities":["completion","tools"],"model_info":{"llama.context_length":4096}}`))
					return
				}
				w.WriteHeader(tt.status)
				w.Write([]byte(tt.body))
			}))
			defer server.Close()
			err := generate(t, provider(t, server.URL), model.Request{Model: "x", Messages: []model.Message{model.User("x")}})
			if kind, _ := model.KindOf(err); kind != tt.kind {
				t.Errorf("error = %v (%v), want %v", err, kind, tt.kind)
			}
		})
	}
	t.Run("nobody there", func(t *testing.T) {
		server := httptest.NewServer(nil)
		server.Close()
		err := generate(t, provider(t, server.URL), model.Request{Model: "x", Messages: []model.Message{model.User("x")}})
		if kind, _ := model.KindOf(err); kind != model.KindUnavailable || !model.Retryable(err) {
			t.Errorf("error = %v, want unavailable and worth a retry", err)
		}
	})
}

func TestWindowIsAlwaysStated(t *testing.T) {
	var got struct {
		Truncate *bool
		Options  map[string]any
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/api/show") {
			w.Write([]byte(`{"capabilities":["completion"],"model_info":{"general.architecture":"qwen3","qwen3.context_length":40960}}`))
			return
		}
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
		w.Write([]byte(`{"done":true,"done_reason":"stop"}`))
	}))
	defer server.Close()
	for asked, want := range map[int]float64{0: 16384, 8000: 8000, 1 << 20: 40960} {
		err := generate(t, provider(t, server.URL), model.Request{Model: "x", ContextTokens: asked, Messages: []model.Message{model.User("x")}})
		if err != nil || got.Options["num_ctx"] != want || got.Truncate == nil || *got.Truncate {
			t.Errorf("asked for %d: %v, num_ctx %v, truncate %v; want %v and false", asked, err, got.Options["num_ctx"], got.Truncate, want)
		}
	}
}

func TestTimeoutOfASilentServer(t *testing.T) {
	silent := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/api/show") {
			w.Write([]byte(`{"capabilities":["completion"]}`))
			return
		}
		<-silent
	}))
	defer server.Close()
	defer close(silent)
	p := model.WithTimeouts(provider(t, server.URL), model.Timeouts{FirstEvent: 50 * time.Millisecond})
	err := generate(t, p, model.Request{Model: "x", Messages: []model.Message{model.User("x")}})
	if kind, _ := model.KindOf(err); kind != model.KindTimeout {
		t.Errorf("error = %v, want a time-out", err)
	}
}
