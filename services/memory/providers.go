package memory

import (
	"fmt"

	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/offline"
	"github.com/gantry-agents/gantry/libs/model/ollama"
	"github.com/gantry-agents/gantry/libs/model/openai"
	"github.com/gantry-agents/gantry/libs/model/scripted"
)

// provider finds the model that the settings name: the provider, and the name that it knows. Nil for none, and for offline, whose work rules do here.
func provider(cfg Config) (model.Provider, string, error) {
	if cfg.Model == "" {
		return nil, "", nil
	}
	list := []model.Provider{offline.New()}
	if cfg.Script != "" {
		script, err := scripted.Load(cfg.Script)
		if err != nil {
			return nil, "", &config.Error{Err: err}
		}
		list = append(list, scripted.New(script))
	}
	if cfg.OpenAIURL != "" {
		p, err := openai.New(openai.Config{BaseURL: cfg.OpenAIURL, APIKey: cfg.OpenAIKey})
		if err != nil {
			return nil, "", &config.Error{Err: err}
		}
		list = append(list, p)
	}
	own := ollama.DefaultConfig()
	if cfg.OllamaURL != "" {
		own.BaseURL = cfg.OllamaURL
	}
	p, err := ollama.New(own)
	if err != nil {
		return nil, "", &config.Error{Err: err}
	}
	registry, err := model.NewRegistry(p.Name(), append(list, p)...)
	if err != nil {
		return nil, "", err
	}
	found, name, err := registry.Resolve(cfg.Model)
	if err != nil {
		return nil, "", &config.Error{Err: fmt.Errorf("memory: memory-model: %w", err)}
	}
	if found.Name() == model.OfflineName {
		return nil, "", nil
	}
	return model.Retry(found, model.DefaultRetryPolicy()), name, nil
}
