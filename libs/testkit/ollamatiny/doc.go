// Package ollamatiny writes two models so small that a test can give them to a real Ollama server and say beforehand what
// the server must answer.
//
// The chat model is an automaton in the clothes of a Llama: embeddings are one-hot, attention and feed-forward are zero, so
// what leaves the only layer is the last token itself, and the output matrix says which token follows it. Its template ends
// the prompt in a special token that depends on the last message; from there the answer runs down its chain of tokens, at
// any temperature and whatever the prompt. The embedding model is a bag of words: random signs for each token, an attention
// that weighs all alike, and a value matrix that changes nothing, so that texts with common words are near each other.
//
// gguf.go writes the file format, automaton.go the chat model, bag.go the embedding model.
package ollamatiny
