// Package model is the port through which Gantry talks to language models, and the rules that hold for every provider
// behind it.
//
// The words: a provider is one way to reach models (a server, a file of scripted turns, no model at all); a model is what
// the provider calls by a name; a reference is "provider:model". A request is one turn: system text, messages, the tools
// that are offered. The answer is a stream of events that ends with exactly one finish event, or with an error.
//
// A provider does no retrying, no waiting and no falling back of its own: [Retry], [WithTimeouts] and [Fallback] wrap any
// provider, and every provider passes the suite in the package modeltest.
package model
