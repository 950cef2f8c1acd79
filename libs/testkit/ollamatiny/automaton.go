package ollamatiny

import (
	"fmt"
	"strings"
)

// What the chat model says. The last message of the conversation chooses: a tool result leads to AfterTool; a message of
// the user that begins with one of the words below leads to the answer beside it when tools are offered (for the tool
// calls) or always (for the rest); everything else leads to Hello.
const (
	Hello   = "Hello from a very small model, token by token."
	Unicode = "Grüße aus Köln, 你好世界, 🎉 fin"
	JSON    = `{"answer": "yes"}`
	// AfterTool follows any tool result.
	AfterTool = "The tool has answered, thank you."

	SayUnicode = "greet"
	SayJSON    = "json"
	// SayLong begins an answer that repeats LongWords without end, for tests that break off or limit it.
	SayLong = "long"
	// SayWeather calls get_weather with {"city": "Paris"} if tools are offered.
	SayWeather = "weather"
	// SayRead calls read_file with {"path": "notes.md"} if tools are offered.
	SayRead = "read"

	WeatherTool, WeatherArguments = "get_weather", `{"city": "Paris"}`
	ReadTool, ReadArguments       = "read_file", `{"path": "notes.md"}`

	// Window is the context window of both models, in tokens.
	Window = 2048
)

// LongWords is what the endless answer repeats.
var LongWords = []string{"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}

// Modelfile makes the chat model known to Ollama. Its template marks the prompt with the token of the answer. Ollama learns
// from it as well that the model can call tools, and how a call is written.
const Modelfile = `FROM ./chat.gguf
TEMPLATE """{{- range $i, $m := .Messages }}
{{- .Role }}: {{ .Content }}{{ range .ToolCalls }}{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}{{ end }}
{{ if eq (len (slice $.Messages $i)) 1 }}
{{- if eq .Role "tool" }}<|after|>
{{- else if and $.Tools (ge (len .Content) 7) (eq (slice .Content 0 7) "weather") }}{{ $.Tools }}<|weather|>
{{- else if and $.Tools (ge (len .Content) 4) (eq (slice .Content 0 4) "read") }}{{ $.Tools }}<|read|>
{{- else if and (ge (len .Content) 5) (eq (slice .Content 0 5) "greet") }}<|greet|>
{{- else if and (ge (len .Content) 4) (eq (slice .Content 0 4) "long") }}<|long|>
{{- else if and (ge (len .Content) 4) (eq (slice .Content 0 4) "json") }}<|json|>
{{- else }}<|hello|>
{{- end }}
{{- end }}
{{- end }}"""
PARAMETER temperature 0
`

// vocabulary is the list of tokens with what follows each.
type vocabulary struct {
	tokens []string
	types  []int32
	next   map[int]int
}

// The kinds of tokens as the tokenizer knows them.
const (
	tokenNormal  = 1
	tokenControl = 3
)

// newVocabulary holds the 256 bytes and the two tokens that every text has.
func newVocabulary() (v *vocabulary, begin, end int) {
	v = &vocabulary{next: map[int]int{}}
	for b := range 256 {
		v.add(byteToken(byte(b)), tokenNormal)
	}
	return v, v.add("<|begin|>", tokenControl), v.add("<|end|>", tokenControl)
}

func (v *vocabulary) add(token string, kind int32) int {
	v.tokens, v.types = append(v.tokens, token), append(v.types, kind)
	return len(v.tokens) - 1
}

// byteToken is the printable character that byte-level BPE writes for a byte.
func byteToken(b byte) string {
	shown := func(b int) bool {
		return b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
	}
	if shown(int(b)) {
		return string(rune(b))
	}
	hidden := 0
	for i := range int(b) {
		if !shown(i) {
			hidden++
		}
	}
	return string(rune(256 + hidden))
}

// encode writes text as the characters of its bytes.
func encode(text string) string {
	var b strings.Builder
	for i := range len(text) {
		b.WriteString(byteToken(text[i]))
	}
	return b.String()
}

// chain makes the tokens of an answer follow each other, from a control token to last. A token has one successor and the
// file must not hold a token twice (the server aborts), so no piece may occur in two places.
func (v *vocabulary) chain(from string, pieces []string, last int) error {
	at := v.add(from, tokenControl)
	for _, p := range pieces {
		token := encode(p)
		for _, t := range v.tokens {
			if t == token {
				return fmt.Errorf("piece %q of %s is a token already: cut the answer differently", p, from)
			}
		}
		id := v.add(token, tokenNormal)
		v.next[at] = id
		at = id
	}
	v.next[at] = last
	return nil
}

// answers are cut into pieces that occur once each. The cut of Unicode goes through the middle of characters on purpose:
// a server must put them together again.
var answers = []struct {
	token  string
	pieces []string
}{
	{"<|hello|>", []string{"Hello", " from", " a very", " small", " model,", " token by", " token."}},
	{"<|greet|>", []string{"Gr\xc3", "\xbc\xc3\x9f", "e aus K\xc3", "\xb6ln, ", "你好\xe4", "\xb8\x96界", ", \xf0\x9f", "\x8e\x89", " fin"}},
	{"<|json|>", []string{`{"answer"`, `: `, `"yes`, `"}`}},
	{"<|after|>", []string{"The tool", " has", " answered", ", thank", " you."}},
	{"<|weather|>", []string{`{"name": "get_weather"`, `, "arguments": `, `{"city"`, `: "Paris"`, `}}`}},
	{"<|read|>", []string{`{"name": "read_file"`, `, "arguments"`, `: {"path"`, `: "notes.md"`, ` }}`}},
}

// Chat is the GGUF file of the chat model.
func Chat() ([]byte, error) {
	v, begin, end := newVocabulary()
	for _, a := range answers {
		if err := v.chain(a.token, a.pieces, end); err != nil {
			return nil, err
		}
	}
	first := len(v.tokens) + 1
	words := make([]string, len(LongWords))
	for i, w := range LongWords {
		words[i] = w + " "
	}
	if err := v.chain("<|long|>", words, first); err != nil {
		return nil, err
	}
	return v.automaton(begin, end)
}

// headSize is the size of an attention head; the width of the model is a multiple of it.
const headSize = 64

func (v *vocabulary) automaton(begin, end int) ([]byte, error) {
	n := len(v.tokens)
	width := (n + headSize - 1) / headSize * headSize
	f := &file{}
	v.describe(f, "tiny automaton", width, 1, begin, end)
	f.matrix("token_embd.weight", width, n, func(token, i int) float32 { return is(token == i, 1) })
	f.vector("output_norm.weight", width, 1)
	f.matrix("output.weight", width, n, func(token, last int) float32 {
		if last >= n {
			return 0
		}
		follows, ok := v.next[last]
		if !ok {
			follows = end
		}
		return is(follows == token, 2)
	})
	layer(f, width, 1, nil, nil)
	return f.bytes()
}

func is(yes bool, value float32) float32 {
	if yes {
		return value
	}
	return 0
}

// layer adds the one layer of a model: everything zero but, where given, the value and the output matrix of attention.
func layer(f *file, width, kvHeads int, value, output func(column, row int) float32) {
	const inner = 64
	f.vector("blk.0.attn_norm.weight", width, 1)
	f.matrix("blk.0.attn_q.weight", width, width, nil)
	f.matrix("blk.0.attn_k.weight", width, headSize*kvHeads, nil)
	f.matrix("blk.0.attn_v.weight", width, headSize*kvHeads, value)
	f.matrix("blk.0.attn_output.weight", width, width, output)
	f.vector("blk.0.ffn_norm.weight", width, 1)
	f.matrix("blk.0.ffn_gate.weight", width, inner, nil)
	f.matrix("blk.0.ffn_up.weight", width, inner, nil)
	f.matrix("blk.0.ffn_down.weight", inner, width, nil)
}

// describe sets the keys that say what kind of model the file holds.
func (v *vocabulary) describe(f *file, name string, width, kvHeads, begin, end int, merges ...string) {
	if len(merges) == 0 {
		merges = []string{"a b"} // the format wants at least one; there is no such token, so it never applies
	}
	for _, e := range []entry{
		{"general.architecture", "llama"}, {"general.name", name}, {"general.file_type", uint32(1)}, {"general.alignment", uint32(ggufAlignment)},
		{"llama.block_count", uint32(1)}, {"llama.context_length", uint32(Window)}, {"llama.embedding_length", uint32(width)},
		{"llama.feed_forward_length", uint32(64)}, {"llama.attention.head_count", uint32(width / headSize)},
		{"llama.attention.head_count_kv", uint32(kvHeads)}, {"llama.attention.layer_norm_rms_epsilon", float32(1e-5)},
		{"llama.rope.dimension_count", uint32(headSize)}, {"llama.vocab_size", uint32(len(v.tokens))},
		{"tokenizer.ggml.model", "gpt2"}, {"tokenizer.ggml.pre", "default"}, {"tokenizer.ggml.tokens", v.tokens},
		{"tokenizer.ggml.token_type", v.types}, {"tokenizer.ggml.merges", merges},
		{"tokenizer.ggml.bos_token_id", uint32(begin)}, {"tokenizer.ggml.eos_token_id", uint32(end)}, {"tokenizer.ggml.add_bos_token", true},
	} {
		f.set(e.key, e.value)
	}
}
