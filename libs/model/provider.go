package model

import "context"

// Provider is one way to reach models.
//
// Generate sends one turn. An error that is known before the first event may come from Generate or from the first Next;
// wrappers treat both alike. The context governs the whole stream: when it ends, Next returns promptly with an error for
// which errors.Is(err, context.Cause(ctx)) or errors.Is(err, ctx.Err()) holds, and the work at the other end is given up.
// The request is not changed and not kept after the stream has ended.
//
// Errors are *[Error], so that a caller can tell what to do next, except for the context's own.
//
// A provider is safe for concurrent use.
type Provider interface {
	// Name is the prefix of references to the provider: lower case letters, digits and dashes.
	Name() string
	Generate(ctx context.Context, req Request) (Stream, error)
	// Embed turns texts into vectors, one a text, in order, all of one length.
	Embed(ctx context.Context, req EmbedRequest) (EmbedResponse, error)
	// Info describes one model; an unknown one is KindUnknownModel.
	Info(ctx context.Context, model string) (Info, error)
	// List names the models that can be used now, sorted by name.
	List(ctx context.Context) ([]Info, error)
}

// EmbedRequest asks for vectors.
type EmbedRequest struct {
	Model string
	Texts []string
}

// EmbedResponse holds one vector for each text.
type EmbedResponse struct {
	Vectors [][]float32
	Usage   Usage
}

// Info describes a model.
type Info struct {
	Name string
	// ContextTokens is the window, 0 when unknown.
	ContextTokens int
	Capabilities  Capabilities
}

// Capabilities says what a model can do. What a provider cannot find out is false.
type Capabilities struct {
	Chat, Tools, Vision, Thinking, Embedding bool
}

// Unwrap returns the provider under all wrappers of this package.
func Unwrap(p Provider) Provider {
	for {
		w, ok := p.(interface{ Unwrap() Provider })
		if !ok {
			return p
		}
		p = w.Unwrap()
	}
}
