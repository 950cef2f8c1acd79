// Package ollama is the provider for models of an Ollama server, through Ollama's own client.
//
// The window is stated in every request (num_ctx): left to itself the server takes a small default and silently forgets
// the beginning of a conversation. Truncation is switched off for the same reason, so that an input that is too long is an
// error that the caller can answer with a compaction.
//
// ollama.go holds the provider, config.go its settings, convert.go the two formats of messages, stream.go the answer,
// errors.go what each failure means.
package ollama
