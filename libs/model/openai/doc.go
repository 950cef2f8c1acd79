// Package openai is the provider for every server that speaks OpenAI's chat completions: OpenAI itself, vLLM, llama.cpp,
// Ollama's /v1, and most hosted models. It is written against the wire format with net/http alone, because compatible
// servers differ in small ways that a client for one of them does not forgive.
//
// openai.go holds the provider, config.go its settings, convert.go the two formats of messages, stream.go the answer, sse.go
// the event stream under it, errors.go what each failure means.
package openai
