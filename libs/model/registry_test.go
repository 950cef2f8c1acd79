package model_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/offline"
	"github.com/gantry-agents/gantry/libs/model/scripted"
)

// named is a provider under another name, with a fixed list of models.
type named struct {
	model.Provider
	name   string
	models []model.Info
	err    error
}

func (n named) Name() string                               { return n.name }
func (n named) List(context.Context) ([]model.Info, error) { return n.models, n.err }

func registry(t *testing.T, fallback string, providers ...model.Provider) *model.Registry {
	t.Helper()
	r, err := model.NewRegistry(fallback, providers...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParse(t *testing.T) {
	r := registry(t, "ollama", named{name: "ollama"}, named{name: "openai"}, offline.New())
	tests := map[string]model.Ref{
		"openai:gpt-5":         {Provider: "openai", Model: "gpt-5"},
		"ollama:llama3:8b":     {Provider: "ollama", Model: "llama3:8b"},
		"llama3:8b":            {Provider: "ollama", Model: "llama3:8b"}, // no provider is named llama3
		"qwen3-max":            {Provider: "ollama", Model: "qwen3-max"},
		"hf.co/a/b:Q4":         {Provider: "ollama", Model: "hf.co/a/b:Q4"},
		"offline":              {Provider: "offline"},
		"offline:rules":        {Provider: "offline", Model: "rules"},
		"openai:ft:gpt-4o:org": {Provider: "openai", Model: "ft:gpt-4o:org"},
		" openai:gpt-5 ":       {Provider: "openai", Model: "gpt-5"},
		"OpenAI:gpt-5":         {Provider: "ollama", Model: "OpenAI:gpt-5"}, // names are exact
	}
	for name, want := range tests {
		if got, err := r.Parse(name); err != nil || got != want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", name, got, err, want)
		}
	}
	if _, err := r.Parse("  "); err == nil {
		t.Error("an empty name is taken")
	}
	if p, name, err := r.Resolve("openai:gpt-5"); err != nil || p.Name() != "openai" || name != "gpt-5" {
		t.Errorf("Resolve = %v, %q, %v", p, name, err)
	}
}

func TestNewRegistryRefuses(t *testing.T) {
	if _, err := model.NewRegistry("a", scripted.Must("{}")); err == nil {
		t.Error("a default provider that is not there is taken")
	}
	if _, err := model.NewRegistry("scripted", scripted.Must("{}"), scripted.Must("{}")); err == nil {
		t.Error("two providers of one name are taken")
	}
}

func TestDefault(t *testing.T) {
	tools := func(name string) model.Info {
		return model.Info{Name: name, Capabilities: model.Capabilities{Chat: true, Tools: true}}
	}
	tests := map[string]struct {
		configured string
		models     []model.Info
		err        error
		want       model.Ref
		reason     string
	}{
		"configured wins": {"openai:gpt-5", []model.Info{tools("a")}, nil, model.Ref{Provider: "openai", Model: "gpt-5"}, "configured"},
		"the only one":    {"", []model.Info{{Name: "embed"}, tools("a:1b")}, nil, model.Ref{Provider: "ollama", Model: "a:1b"}, "only installed"},
		"several":         {"", []model.Info{tools("a"), tools("b")}, nil, model.Ref{Provider: "offline"}, "a, b"},
		"none can":        {"", []model.Info{{Name: "embed"}}, nil, model.Ref{Provider: "offline"}, "no model that can call tools"},
		"no server":       {"", nil, errors.New("connection refused"), model.Ref{Provider: "offline"}, "does not answer"},
		"offline by name": {"offline", nil, nil, model.Ref{Provider: "offline"}, "configured"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := registry(t, "ollama", named{name: "ollama", models: tt.models, err: tt.err}, named{name: "openai"}, offline.New())
			got, err := r.Default(t.Context(), tt.configured)
			if err != nil || got.Ref != tt.want || !strings.Contains(got.Reason, tt.reason) {
				t.Errorf("Default = %+v, %v; want %+v because %q", got, err, tt.want, tt.reason)
			}
		})
	}
	r := registry(t, "ollama", named{name: "ollama"})
	if _, err := r.Default(t.Context(), ""); err == nil {
		t.Error("without the offline provider nothing is left to choose, and that is no error")
	}
}
