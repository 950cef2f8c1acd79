package orchestrator

import (
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/offline"
	"github.com/gantry-agents/gantry/libs/model/ollama"
	"github.com/gantry-agents/gantry/libs/model/openai"
	"github.com/gantry-agents/gantry/libs/model/scripted"
)

// providers makes the registry of models that the settings ask for. The provider offline is always there, as the last resort.
func providers(cfg Config) (*model.Registry, error) {
	list, first := []model.Provider{offline.New()}, model.OfflineName
	if cfg.Script != "" {
		script, err := scripted.Load(cfg.Script)
		if err != nil {
			return nil, err
		}
		list = append(list, scripted.New(script))
	}
	if cfg.OpenAIURL != "" {
		p, err := openai.New(openai.Config{BaseURL: cfg.OpenAIURL, APIKey: cfg.OpenAIKey})
		if err != nil {
			return nil, err
		}
		list, first = append(list, p), p.Name()
	}
	if cfg.OllamaURL != None {
		own := ollama.DefaultConfig()
		if cfg.OllamaURL != "" {
			own.BaseURL = cfg.OllamaURL
		}
		p, err := ollama.New(own)
		if err != nil {
			return nil, err
		}
		list, first = append(list, p), p.Name()
	}
	return model.NewRegistry(first, list...)
}
