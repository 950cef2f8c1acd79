package ollama

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// Config is the settings of the provider.
type Config struct {
	// BaseURL of the server, "http://127.0.0.1:11434". A path is kept.
	BaseURL string
	// ContextTokens is the window that requests ask for when they name none. Models with a smaller one get their own. A
	// larger window costs memory on the server for every request.
	ContextTokens int
	// KeepAlive is how long the server keeps a model loaded after a request; 0 leaves it to the server.
	KeepAlive time.Duration
	// Threads of the server for one request; 0 leaves it to the server.
	Threads int
	// HTTP is the client to use; nil is one without a total time limit, since answers may be long.
	HTTP *http.Client
}

const (
	defaultURL = "http://127.0.0.1:11434"
	// Enough for an agent's prompt and its work, small enough for a machine without a graphics card.
	defaultContextTokens = 16384
	// What is known about a model is kept this long: it changes only when a model is made anew.
	infoLife = time.Minute
	maxInfos = 256
	// maxListed bounds the models whose details List asks for.
	maxListed = 200
)

// DefaultConfig takes the address from OLLAMA_HOST as Ollama's own programs do, else the usual one.
func DefaultConfig() Config {
	return Config{BaseURL: hostURL(os.Getenv("OLLAMA_HOST")), ContextTokens: defaultContextTokens}
}

// hostURL reads the forms that OLLAMA_HOST may have: a URL, host:port, or a host alone. The address of "all interfaces",
// which a server may be told to listen on, is reached on the loopback.
func hostURL(host string) string {
	host = strings.TrimSpace(host)
	if host == "" {
		return defaultURL
	}
	if !strings.Contains(host, "://") {
		host = "http://" + host
	}
	u, err := url.Parse(host)
	if err != nil || u.Host == "" {
		return defaultURL
	}
	name, port := u.Hostname(), u.Port()
	if name == "" || name == "0.0.0.0" || name == "::" {
		name = "127.0.0.1"
	}
	if port == "" {
		port = map[string]string{"http": "11434", "https": "443"}[u.Scheme]
	}
	u.Host = net.JoinHostPort(name, port)
	return u.String()
}
