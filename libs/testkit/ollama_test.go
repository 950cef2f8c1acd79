package testkit

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/testkit/ollamatiny"
)

func TestOllamaServesTheTinyModels(t *testing.T) {
	base := Ollama(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	post := func(t *testing.T, path string, in, out any) {
		t.Helper()
		b, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Post(base+path, "application/json", bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if err := json.NewDecoder(resp.Body).Decode(out); err != nil {
			t.Fatal(err)
		}
	}
	type message struct {
		Role    string `json:"role"`
		Content string `json:"content"`
	}
	for say, want := range map[string]string{"who are you?": ollamatiny.Hello, ollamatiny.SayUnicode: ollamatiny.Unicode, ollamatiny.SayJSON: ollamatiny.JSON} {
		var got struct{ Message message }
		post(t, "/api/chat", map[string]any{"model": OllamaModel, "messages": []message{{"user", say}}, "stream": false, "options": map[string]any{"num_thread": 1}}, &got)
		if strings.TrimSpace(got.Message.Content) != want {
			t.Errorf("%q: %q, want %q", say, got.Message.Content, want)
		}
	}
	var got struct{ Embeddings [][]float32 }
	post(t, "/api/embed", map[string]any{"model": OllamaEmbedModel, "input": []string{"a", "b"}}, &got)
	if len(got.Embeddings) != 2 {
		t.Errorf("%d embeddings, want 2", len(got.Embeddings))
	}
}
