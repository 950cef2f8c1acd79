package testkit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit/ollamatiny"
)

// The models of [Ollama]: what they answer is said in the package ollamatiny.
const (
	OllamaModel      = "tiny:latest"
	OllamaEmbedModel = "tiny-embed:latest"
)

// OllamaEnv names the binary of an Ollama server to use instead of the one that deploy/scripts/ollama.sh builds.
const OllamaEnv = "GANTRY_OLLAMA_BIN"

// Ollama returns the base URL of a real Ollama server with two tiny models of our own. The server is started once for the
// test binary, on the loopback, with a home of its own. Its binary is built by deploy/scripts/ollama.sh, which takes
// minutes; where Ollama is not required, a test skips rather than build it.
func Ollama(tb testing.TB) string {
	tb.Helper()
	url, err := ollamaServer()
	if err != nil {
		Skip(tb, "ollama", "%v", err)
	}
	return url
}

var ollamaServer = sync.OnceValues(func() (string, error) {
	bin, err := ollamaBinary()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "gantry-ollama-")
	if err != nil {
		return "", err
	}
	port, err := freePort()
	if err != nil {
		return "", err
	}
	host := fmt.Sprintf("127.0.0.1:%d", port)
	env := []string{"OLLAMA_HOST=" + host, "HOME=" + dir, "OLLAMA_MODELS=" + filepath.Join(dir, "models"), "OLLAMA_NUM_PARALLEL=2", "OLLAMA_KEEP_ALIVE=10m", "OLLAMA_NO_CLOUD=1", "NO_PROXY=127.0.0.1", "no_proxy=127.0.0.1"}
	// TERM lets the server end its runners, which a kill would leave behind.
	w, err := startWatched(dir, "TERM", 10, nil, nil, env, bin, "serve")
	if err != nil {
		return "", err
	}
	url := "http://" + host
	if err := awaitHTTP(url+"/api/version", time.Minute); err != nil {
		w.stop()
		return "", fmt.Errorf("Ollama does not answer: %w\n%s", err, w.tail())
	}
	if err := makeModels(bin, dir, env); err != nil {
		w.stop()
		return "", err
	}
	return url, nil
})

// ollamaBinary finds the server, or has it built where it must be there.
func ollamaBinary() (string, error) {
	if bin := os.Getenv(OllamaEnv); bin != "" {
		return bin, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	script := filepath.Join(repository(), "deploy", "scripts", "ollama.sh")
	found, err := filepath.Glob(filepath.Join(cache, "gantry", "ollama", "*", "ollama"))
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return found[len(found)-1], nil
	}
	if !Required("ollama") {
		return "", fmt.Errorf("no server is built (run %s, some four minutes) and %s is not set", script, OllamaEnv)
	}
	cmd := exec.Command(script)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("%s: %w", script, err)
	}
	return strings.TrimSpace(string(out)), nil
}

// repository is the root of the source tree that this file was compiled from.
func repository() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

func makeModels(bin, dir string, env []string) error {
	for _, m := range []struct {
		name, file, modelfile string
		gguf                  func() ([]byte, error)
	}{
		{OllamaModel, "chat.gguf", ollamatiny.Modelfile, ollamatiny.Chat},
		{OllamaEmbedModel, "embed.gguf", ollamatiny.EmbedModelfile, ollamatiny.Embed},
	} {
		b, err := m.gguf()
		if err != nil {
			return err
		}
		modelfile := filepath.Join(dir, m.file+".Modelfile")
		if err := errors.Join(os.WriteFile(filepath.Join(dir, m.file), b, 0o644), os.WriteFile(modelfile, []byte(m.modelfile), 0o644)); err != nil {
			return err
		}
		cmd := exec.Command(bin, "create", m.name, "-f", modelfile)
		cmd.Env = append(os.Environ(), env...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("ollama create %s: %w: %s", m.name, err, out)
		}
	}
	return nil
}

// awaitHTTP waits until a URL answers with 200.
func awaitHTTP(url string, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy, no connection left behind
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := client.Do(req)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(resp.Status)
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
