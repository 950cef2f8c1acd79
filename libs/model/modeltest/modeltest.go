// Package modeltest is the suite that every model provider passes. A profile says what the provider under test can do and
// which words make its model do it; what a profile does not declare is tested to be refused.
package modeltest

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// Profile describes the provider under test.
type Profile struct {
	// New makes a provider; what it needs ends with the test.
	New func(testing.TB) model.Provider
	// Model is a model for conversations.
	Model string
	// Window is the context window that Info must state, 0 when the provider cannot know it.
	Window int

	// Text is what to say to get Answer, in at least two pieces.
	Text, Answer string
	// Unicode is what to say to get UnicodeAnswer, which holds characters of several bytes.
	Unicode, UnicodeAnswer string
	// Long is what to say to get an answer of many events, so that there is something to break off. Empty: not tested.
	Long string

	// Tool is a conversation with a tool call; nil when the model has no tools.
	Tool *ToolCase

	// UnknownModel is a name that the provider refuses. Empty: it takes any name.
	UnknownModel string
	// Overflow is an input that does not fit the window. Empty: the provider has no window.
	Overflow string
	// Schema is what to say to get an answer that is JSON of ResponseSchema. Empty: such requests are refused as unsupported.
	Schema         string
	ResponseSchema json.RawMessage

	// EmbedModel makes embeddings. Empty: embedding is refused as unsupported.
	EmbedModel string
	// Failures are requests that must fail in a certain way.
	Failures []Failure
	// Broken are requests whose answer breaks off with an error after some text.
	Broken []Failure

	// NoUsage says that the provider reports no token counts.
	NoUsage bool
	// Patience bounds every single wait; default 30 s.
	Patience time.Duration
}

// ToolCase is a conversation in which the model calls a tool and then answers from the result.
type ToolCase struct {
	Spec      model.ToolSpec
	Say       string
	Arguments string // JSON of the call
	Result    string
	Answer    string
}

// Failure is a request and the error that it must lead to.
type Failure struct {
	Name       string
	Say        string
	Kind       model.Kind
	RetryAfter time.Duration
}

// Run runs the suite.
func Run(t testkit.T, p Profile) {
	if p.Patience == 0 {
		p.Patience = 30 * time.Second
	}
	s := suite{p}
	for _, c := range []struct {
		name string
		test func(testkit.T)
	}{
		{"identity", s.identity}, {"models", s.models}, {"text", s.text}, {"unicode", s.unicode}, {"usage", s.usage},
		{"tools", s.tools}, {"tool choice none", s.toolChoiceNone}, {"schema", s.schema}, {"bad requests", s.badRequests},
		{"request is kept", s.requestIsKept}, {"unknown model", s.unknownModel}, {"overflow", s.overflow},
		{"cancelled before", s.cancelledBefore}, {"cancelled during", s.cancelledDuring}, {"deadline", s.deadline}, {"closed during", s.closedDuring},
		{"concurrent", s.concurrent}, {"embeddings", s.embeddings}, {"failures", s.failures}, {"broken answers", s.broken},
	} {
		t.Run(c.name, c.test)
	}
}

type suite struct{ Profile }

// context gives a test the profile's patience.
func (s suite) context(t testkit.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), s.Patience)
	t.Cleanup(cancel)
	return ctx
}

func (s suite) request(say string) model.Request {
	zero := 0.0
	return model.Request{Model: s.Model, System: "You are under test.", Messages: []model.Message{model.User(say)}, Temperature: &zero}
}

// ask sends a request and collects the answer.
func (s suite) ask(t testkit.T, p model.Provider, req model.Request) model.Response {
	t.Helper()
	stream, err := p.Generate(s.context(t), req)
	if err != nil {
		t.Fatalf("Generate: %v", err)
	}
	r, err := model.Collect(stream)
	if err != nil {
		t.Fatalf("the answer broke off: %v", err)
	}
	return r
}

// fail sends a request that must fail and returns the error, whether it came from Generate or from the stream.
func (s suite) fail(t testkit.T, p model.Provider, req model.Request) (model.Response, error) {
	t.Helper()
	stream, err := p.Generate(s.context(t), req)
	if err != nil {
		return model.Response{}, err
	}
	r, err := model.Collect(stream)
	if err == nil {
		t.Fatalf("the request succeeded: %q", r.Message.Text())
	}
	return r, err
}
