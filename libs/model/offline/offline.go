package offline

import (
	"context"
	"fmt"

	"github.com/gantry-agents/gantry/libs/model"
)

// Model is the one name of the rules; the empty name means it as well.
const Model = "rules"

// Provider carries out plain instructions by rules. The zero value is ready; it holds no state.
type Provider struct{}

var _ model.Provider = Provider{}

// New returns the provider.
func New() Provider { return Provider{} }

// Name is "offline".
func (Provider) Name() string { return model.OfflineName }

// Generate answers a turn: with the next tool calls, or with the report when all are done. Token counts are estimates of
// four bytes a token.
func (p Provider) Generate(ctx context.Context, req model.Request) (model.Stream, error) {
	if err := p.known(req.Model); err != nil {
		return nil, err
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if len(req.ResponseSchema) > 0 {
		return nil, model.NewError(model.KindUnsupported, p.Name(), Model, "the offline rules cannot answer in a given schema: that takes a language model")
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := answer(req)
	r.Usage = model.Usage{InputTokens: inputSize(req) / 4, OutputTokens: outputSize(r.Message)/4 + 1}
	return model.StreamOf(ctx, model.EventsOf(r, pieceSize)...), nil
}

// pieceSize is the size of one event of text, in bytes: small enough to be seen to stream.
const pieceSize = 48

// Embed is not offered: numbers without meaning would be worse than none.
func (p Provider) Embed(context.Context, model.EmbedRequest) (model.EmbedResponse, error) {
	return model.EmbedResponse{}, model.NewError(model.KindUnsupported, p.Name(), Model, "the offline rules make no embeddings")
}

// Info describes the rules.
func (p Provider) Info(_ context.Context, name string) (model.Info, error) {
	if err := p.known(name); err != nil {
		return model.Info{}, err
	}
	return model.Info{Name: Model, Capabilities: model.Capabilities{Chat: true, Tools: true}}, nil
}

// List names the rules.
func (p Provider) List(ctx context.Context) ([]model.Info, error) {
	info, err := p.Info(ctx, Model)
	return []model.Info{info}, err
}

func (p Provider) known(name string) error {
	if name == "" || name == Model {
		return nil
	}
	return model.NewError(model.KindUnknownModel, p.Name(), name, "the offline provider has no model %q, only the rules", name)
}

// answer is the whole of the provider: a function of the request.
func answer(req model.Request) model.Response {
	t := readTurn(req.Messages)
	x := &execution{tools: readTools(req.Tools), names: readNames(req), context: readEvidence(req.Messages), results: t.results}
	if req.ToolChoice == model.ToolChoiceNone {
		x.tools = toolset{}
	}
	for _, instruction := range t.instructions {
		x.perform(parse(instruction, x.names))
	}
	if !x.stopped {
		return model.Response{Message: model.Assistant(model.Text(x.compose())), Finish: model.FinishStop}
	}
	blocks := make([]model.Block, len(x.pending))
	for i, c := range x.pending {
		blocks[i] = model.Call(fmt.Sprintf("offline_%s_%d", t.seed, x.taken+i), c.name, c.args)
	}
	return model.Response{Message: model.Assistant(blocks...), Finish: model.FinishToolCalls}
}

func inputSize(req model.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		n += outputSize(m)
		for _, b := range m.Blocks {
			if b.ToolResult != nil {
				n += len(b.ToolResult.Content)
			}
		}
	}
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

func outputSize(m model.Message) int {
	n := 0
	for _, b := range m.Blocks {
		n += len(b.Text)
		if b.ToolCall != nil {
			n += len(b.ToolCall.Name) + len(b.ToolCall.Arguments)
		}
	}
	return n
}
