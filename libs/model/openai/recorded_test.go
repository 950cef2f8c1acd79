package openai_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// recorded is a server that answers from the files of testdata: the last message of the user is the name of the file.
type recorded struct {
	*httptest.Server
	mu   sync.Mutex
	last map[string]any // the last request
	head http.Header
}

func newRecorded(tb testing.TB) *recorded {
	tb.Helper()
	r := &recorded{}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	tb.Cleanup(r.Close)
	return r
}

func (r *recorded) serve(w http.ResponseWriter, req *http.Request) {
	switch path := strings.TrimPrefix(req.URL.Path, "/v1"); {
	case path == "/models":
		fmt.Fprint(w, `{"data":[{"id":"recorded"},{"id":"another"}]}`)
	case path == "/models/recorded":
		fmt.Fprint(w, `{"id":"recorded"}`)
	case path == "/embeddings":
		r.embed(w, req)
	case path == "/chat/completions":
		r.chat(w, req)
	default:
		play(w, "unknown")
	}
}

func (r *recorded) chat(w http.ResponseWriter, req *http.Request) {
	var body map[string]any
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	r.last, r.head = body, req.Header.Clone()
	r.mu.Unlock()
	if body["model"] != "recorded" {
		play(w, "unknown")
		return
	}
	name, result := "", false
	for _, m := range body["messages"].([]any) {
		m := m.(map[string]any)
		result = m["role"] == "tool"
		if text, ok := m["content"].(string); ok && m["role"] == "user" {
			name = text
		}
	}
	switch {
	case name == "long":
		endless(w, req)
	case name == "weather" && result:
		play(w, "weather-result")
	case name == "weather" && body["tools"] == nil:
		play(w, "weather-none")
	case len(name) > 1000:
		play(w, "overflow")
	default:
		play(w, name)
	}
}

// play sends a recorded response.
func play(w http.ResponseWriter, name string) {
	b, err := os.ReadFile(filepath.Join("testdata", name+".http"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(b)), nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer resp.Body.Close()
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body) // a client that has left is no fault of the recording
}

func endless(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	for req.Context().Err() == nil {
		fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{"content":"and on "}}]}`+"\n\n")
		w.(http.Flusher).Flush()
	}
}

// embed counts words: enough for texts with common words to be near each other.
func (r *recorded) embed(w http.ResponseWriter, req *http.Request) {
	var body struct {
		Model string
		Input []string
	}
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil || body.Model != "recorded" {
		play(w, "unknown")
		return
	}
	type item struct {
		Index     int       `json:"index"`
		Embedding []float32 `json:"embedding"`
	}
	var data []item
	for i := len(body.Input) - 1; i >= 0; i-- { // the order of the answer is not the order of the texts
		v := make([]float32, 97)
		for _, word := range strings.Fields(body.Input[i]) {
			v[crc32.ChecksumIEEE([]byte(word))%97]++
		}
		data = append(data, item{i, v})
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"data": data, "usage": map[string]int{"prompt_tokens": 3}})
}
