package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"sort"
	"strings"

	"github.com/gantry-agents/gantry/libs/model"
)

// Provider reaches the models of one server.
type Provider struct{ config Config }

var _ model.Provider = (*Provider)(nil)

// New makes the provider; it does not connect.
func New(config Config) (*Provider, error) {
	config = config.withDefaults()
	base, err := url.Parse(config.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, model.NewError(model.KindBadRequest, config.Name, "", "the address %q is no http URL", config.BaseURL)
	}
	return &Provider{config}, nil
}

// Name is the configured name.
func (p *Provider) Name() string { return p.config.Name }

// Generate streams one answer.
func (p *Provider) Generate(ctx context.Context, req model.Request) (model.Stream, error) {
	if err := req.Validate(); err != nil {
		return nil, err
	}
	body, err := p.chatRequest(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	resp, err := p.send(ctx, http.MethodPost, "/chat/completions", req.Model, body)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	return newStream(ctx, cancel, p.config.Name, req.Model, resp.Body), nil
}

// Embed turns texts into vectors.
func (p *Provider) Embed(ctx context.Context, req model.EmbedRequest) (model.EmbedResponse, error) {
	if len(req.Texts) == 0 {
		return model.EmbedResponse{}, p.error(model.KindBadRequest, req.Model, "no texts to embed")
	}
	var out struct {
		Data []struct {
			Index     int       `json:"index"`
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
		Usage usage `json:"usage"`
	}
	if err := p.call(ctx, http.MethodPost, "/embeddings", req.Model, map[string]any{"model": req.Model, "input": req.Texts}, &out); err != nil {
		return model.EmbedResponse{}, err
	}
	vectors := make([][]float32, len(req.Texts))
	for _, d := range out.Data {
		if d.Index < 0 || d.Index >= len(vectors) {
			return model.EmbedResponse{}, p.error(model.KindInternal, req.Model, "a vector came for text %d of %d", d.Index, len(vectors))
		}
		vectors[d.Index] = d.Embedding
	}
	for i, v := range vectors {
		if len(v) == 0 {
			return model.EmbedResponse{}, p.error(model.KindInternal, req.Model, "no vector came for text %d", i)
		}
	}
	return model.EmbedResponse{Vectors: vectors, Usage: out.Usage.count()}, nil
}

// Info describes a model. The server is asked whether it exists; what it can do the format does not say, so a model is
// taken to converse and to call tools, and a request that asks too much fails.
func (p *Provider) Info(ctx context.Context, modelName string) (model.Info, error) {
	if strings.TrimSpace(modelName) == "" {
		return model.Info{}, p.error(model.KindUnknownModel, modelName, "no model is named")
	}
	var out struct {
		ID string `json:"id"`
	}
	if err := p.call(ctx, http.MethodGet, "/models/"+url.PathEscape(modelName), modelName, nil, &out); err != nil {
		return model.Info{}, err
	}
	return p.describe(modelName), nil
}

// List describes the models that the server names.
func (p *Provider) List(ctx context.Context) ([]model.Info, error) {
	var out struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if err := p.call(ctx, http.MethodGet, "/models", "", nil, &out); err != nil {
		return nil, err
	}
	infos := make([]model.Info, len(out.Data))
	for i, m := range out.Data {
		infos[i] = p.describe(m.ID)
	}
	sort.Slice(infos, func(i, j int) bool { return infos[i].Name < infos[j].Name })
	return infos, nil
}

func (p *Provider) describe(modelName string) model.Info {
	embeds := strings.Contains(modelName, "embed")
	return model.Info{Name: modelName, ContextTokens: p.config.window(modelName), Capabilities: model.Capabilities{Chat: !embeds, Tools: !embeds, Embedding: embeds}}
}

// call sends a request whose answer is one JSON value.
func (p *Provider) call(ctx context.Context, method, path, modelName string, in, out any) error {
	resp, err := p.send(ctx, method, path, modelName, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return p.unreachable(ctx, modelName, err)
	}
	if len(b) > maxBody {
		return p.error(model.KindInternal, modelName, "the answer has more than %d bytes", maxBody)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return p.error(model.KindInternal, modelName, "the answer is not the JSON that was expected: %w", err)
	}
	return nil
}

// send sends a request and returns the response if its status is good.
func (p *Provider) send(ctx context.Context, method, path, modelName string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return nil, p.error(model.KindBadRequest, modelName, "the request cannot be written as JSON: %w", err)
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, p.config.BaseURL+path, body)
	if err != nil {
		return nil, p.error(model.KindBadRequest, modelName, "the request cannot be made: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for k, v := range p.config.Headers {
		req.Header.Set(k, v)
	}
	if p.config.APIKey != "" {
		req.Header.Set("Authorization", "Bearer "+string(p.config.APIKey))
	}
	resp, err := p.config.HTTP.Do(req)
	if err != nil {
		return nil, p.unreachable(ctx, modelName, err)
	}
	if resp.StatusCode >= http.StatusBadRequest {
		defer resp.Body.Close()
		return nil, p.refused(ctx, modelName, resp)
	}
	return resp, nil
}
