package openai

import (
	"net/http"
	"strings"

	"github.com/gantry-agents/gantry/libs/config"
)

// Config is the settings of the provider.
type Config struct {
	// Name of the provider in references, default "openai"; several servers may be registered under names of their own.
	Name string
	// BaseURL up to and without "/chat/completions", for example "https://api.openai.com/v1".
	BaseURL string
	// APIKey is sent as a bearer token; empty sends none.
	APIKey config.Secret
	// Headers are added to every request.
	Headers map[string]string
	// Windows states context windows by the beginning of a model's name, before and above the built-in table.
	Windows map[string]int
	// MaxTokensField is the field for the limit of the answer: "max_completion_tokens" (default) or "max_tokens" for older
	// servers.
	MaxTokensField string
	// NoStreamOptions leaves out the request for token counts, for servers that refuse it.
	NoStreamOptions bool
	// HTTP is the client to use; nil is one without a total time limit, since answers may be long.
	HTTP *http.Client
}

const (
	defaultName      = "openai"
	defaultURL       = "https://api.openai.com/v1"
	defaultMaxTokens = "max_completion_tokens"
	maxBody          = 16 << 20 // bytes of an answer that is not streamed
	maxEvent         = 4 << 20  // bytes of one event of a stream
)

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = defaultName
	}
	if c.BaseURL == "" {
		c.BaseURL = defaultURL
	}
	c.BaseURL = strings.TrimRight(c.BaseURL, "/")
	if c.MaxTokensField == "" {
		c.MaxTokensField = defaultMaxTokens
	}
	if c.HTTP == nil {
		c.HTTP = &http.Client{}
	}
	return c
}

// windows holds the windows that makers state for their models, by the beginning of the name; the longest one wins. The
// wire format has no way to ask for it.
var windows = map[string]int{
	"gpt-3.5": 16385, "gpt-4": 8192, "gpt-4-turbo": 128000, "gpt-4o": 128000, "gpt-4.1": 1047576, "gpt-5": 400000, "o1": 200000, "o3": 200000, "o4": 200000,
	"claude-": 200000, "gemini-1.5": 2097152, "gemini-2": 1048576, "qwen-max": 32768, "qwen-plus": 131072, "qwen-turbo": 131072, "qwen3": 131072,
	"deepseek-": 131072, "mistral-large": 131072, "llama-3": 131072, "kimi-": 131072, "glm-4": 131072,
}

// window is the context window of a model, 0 when it is not known.
func (c Config) window(modelName string) int {
	for _, table := range []map[string]int{c.Windows, windows} {
		best, n := "", 0
		for prefix, tokens := range table {
			if strings.HasPrefix(modelName, prefix) && len(prefix) >= len(best) {
				best, n = prefix, tokens
			}
		}
		if n > 0 {
			return n
		}
	}
	return 0
}
