package ollama

import (
	"context"
	"net/http"
	"net/url"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/ollama/ollama/api"
	ollamamodel "github.com/ollama/ollama/types/model"

	"github.com/gantry-agents/gantry/libs/model"
)

const name = "ollama"

// Provider reaches the models of one server.
type Provider struct {
	config Config
	client *api.Client

	mu    sync.Mutex
	infos map[string]known
}

type known struct {
	info  model.Info // with the model's own window
	until time.Time
}

var _ model.Provider = (*Provider)(nil)

// New makes the provider; it does not connect.
func New(config Config) (*Provider, error) {
	base, err := url.Parse(config.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, model.NewError(model.KindBadRequest, name, "", "the address %q of the Ollama server is no http URL", config.BaseURL)
	}
	if config.ContextTokens <= 0 {
		config.ContextTokens = defaultContextTokens
	}
	if config.HTTP == nil {
		config.HTTP = &http.Client{}
	}
	return &Provider{config: config, client: api.NewClient(base, config.HTTP), infos: map[string]known{}}, nil
}

// Name is "ollama".
func (p *Provider) Name() string { return name }

// Generate streams one answer. Ollama cannot be made to call a tool: "required" and a tool's name only leave out the other
// tools. Images must be given as data.
func (p *Provider) Generate(ctx context.Context, req model.Request) (model.Stream, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	info, err := p.describe(ctx, req.Model)
	if err != nil {
		return nil, err
	}
	chat, err := p.chatRequest(req, info)
	if err != nil {
		return nil, err
	}
	return p.stream(ctx, req.Model, chat), nil
}

// Embed turns texts into vectors.
func (p *Provider) Embed(ctx context.Context, req model.EmbedRequest) (model.EmbedResponse, error) {
	if len(req.Texts) == 0 {
		return model.EmbedResponse{}, model.NewError(model.KindBadRequest, name, req.Model, "no texts to embed")
	}
	info, err := p.describe(ctx, req.Model)
	if err != nil {
		return model.EmbedResponse{}, err
	}
	if !info.Capabilities.Embedding {
		return model.EmbedResponse{}, model.NewError(model.KindUnsupported, name, req.Model, "the model %q makes no embeddings", req.Model)
	}
	whole := false
	r, err := p.client.Embed(ctx, &api.EmbedRequest{Model: req.Model, Input: req.Texts, Truncate: &whole, KeepAlive: p.keepAlive(), Options: p.options()})
	if err != nil {
		return model.EmbedResponse{}, explain(ctx, req.Model, err)
	}
	if len(r.Embeddings) != len(req.Texts) {
		return model.EmbedResponse{}, model.NewError(model.KindInternal, name, req.Model, "%d vectors came for %d texts", len(r.Embeddings), len(req.Texts))
	}
	return model.EmbedResponse{Vectors: r.Embeddings, Usage: model.Usage{InputTokens: r.PromptEvalCount}}, nil
}

// Info describes a model. The window is the one that requests get: the model's own, or the configured one if that is
// smaller.
func (p *Provider) Info(ctx context.Context, modelName string) (model.Info, error) {
	info, err := p.describe(ctx, modelName)
	if err != nil {
		return model.Info{}, err
	}
	info.ContextTokens = p.window(info, 0)
	return info, nil
}

// List describes the installed models.
func (p *Provider) List(ctx context.Context) ([]model.Info, error) {
	r, err := p.client.List(ctx)
	if err != nil {
		return nil, explain(ctx, "", err)
	}
	var out []model.Info
	for i, m := range r.Models {
		if i == maxListed {
			break
		}
		info, err := p.Info(ctx, m.Name)
		if kind, ok := model.KindOf(err); ok && kind == model.KindUnknownModel {
			continue // removed a moment ago
		}
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// describe asks for a model's details, or remembers them.
func (p *Provider) describe(ctx context.Context, modelName string) (model.Info, error) {
	p.mu.Lock()
	k, ok := p.infos[modelName]
	p.mu.Unlock()
	if ok && time.Now().Before(k.until) {
		return k.info, nil
	}
	if strings.TrimSpace(modelName) == "" {
		return model.Info{}, model.NewError(model.KindUnknownModel, name, modelName, "no model is named")
	}
	r, err := p.client.Show(ctx, &api.ShowRequest{Model: modelName})
	if err != nil {
		return model.Info{}, explain(ctx, modelName, err)
	}
	info := model.Info{Name: modelName, ContextTokens: window(r.ModelInfo)}
	for _, c := range r.Capabilities {
		switch c {
		case ollamamodel.CapabilityCompletion:
			info.Capabilities.Chat = true
		case ollamamodel.CapabilityTools:
			info.Capabilities.Tools = true
		case ollamamodel.CapabilityVision:
			info.Capabilities.Vision = true
		case ollamamodel.CapabilityThinking:
			info.Capabilities.Thinking = true
		case ollamamodel.CapabilityEmbedding:
			info.Capabilities.Embedding = true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.infos) >= maxInfos {
		clear(p.infos)
	}
	p.infos[modelName] = known{info, time.Now().Add(infoLife)}
	return info, nil
}

// window finds the context length among the model's keys, which begin with the name of its architecture.
func window(keys map[string]any) int {
	for key, value := range keys {
		if n, ok := value.(float64); ok && strings.HasSuffix(key, ".context_length") {
			return int(n)
		}
	}
	return 0
}

// window is the num_ctx of a request: what is asked for, within the model's own.
func (p *Provider) window(info model.Info, asked int) int {
	n := p.config.ContextTokens
	if asked > 0 {
		n = asked
	}
	if info.ContextTokens > 0 {
		n = min(n, info.ContextTokens)
	}
	return n
}
