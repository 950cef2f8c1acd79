package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
)

// TestCompose builds the images and starts docker-compose.yml with a real engine, makes one call as a user with a token, and
// takes it down again.
func TestCompose(t *testing.T) {
	if _, err := exec.LookPath("docker-compose"); err != nil {
		testkit.Skip(t, "docker", "%v (apt-get install docker-compose)", err)
	}
	bin, err := procs.Bin()
	if err != nil {
		t.Fatal(err)
	}
	testkit.InDocker(t, func(t *testing.T, _ testkit.Engine) {
		c := &compose{root: root(t), env: []string{
			"GANTRY_KEYS=" + t.TempDir(), "GANTRY_IMAGE_BIN=" + bin, "GANTRY_TAG=e2e", "GANTRY_MODEL=offline", "GANTRY_OLLAMA_URL=none", "COMPOSE_PROJECT_NAME=gantrye2e",
		}}
		c.run(t, "deploy/scripts/token.sh", "--keys-only")
		c.run(t, "deploy/scripts/image.sh")
		sandboxes := c.privileged(t)
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(c.run(t, "docker-compose", "logs", "--tail=20", "--no-color"))
			}
			c.run(t, "docker-compose", "down", "-v", "-t", "15")
		})
		started := time.Now()
		c.run(t, "docker-compose", "up", "-d")
		t.Logf("up after %s", time.Since(started).Round(time.Second))
		c.calls(t, strings.TrimSpace(c.run(t, "deploy/scripts/token.sh", "--user", "ana")), sandboxes)
	})
}

// unprivileged is for machines whose root may not have all capabilities, such as some virtual machines: engines there can't start
// privileged containers at all. The sandbox service then finds that it can't make sandboxes, and agents work on files alone.
const unprivileged = "services:\n  sandbox:\n    privileged: false\n"

// privileged says whether the engine can start the sandbox service as docker-compose.yml wants it. If not, the project is
// changed to do without.
func (c *compose) privileged(t *testing.T) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "docker", "run", "--rm", "--privileged", "gantry/sandbox:e2e", "--print-markdown")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return true
	}
	t.Logf("the engine starts no privileged containers here, so no sandbox is tested: %s", out)
	override := filepath.Join(t.TempDir(), "unprivileged.yml")
	if err := os.WriteFile(override, []byte(unprivileged), 0o644); err != nil {
		t.Fatal(err)
	}
	c.env = append(c.env, "COMPOSE_FILE=docker-compose.yml:"+override)
	return false
}

// root is the source tree.
func root(t *testing.T) string {
	_, file, _, ok := runtime.Caller(0)
	if !ok || !filepath.IsAbs(file) {
		t.Fatal("built without paths")
	}
	return filepath.Join(filepath.Dir(file), "..", "..", "..")
}

type compose struct {
	root string
	env  []string
}

// run runs a command in the source tree and returns its standard output.
func (c *compose) run(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = c.root, append(os.Environ(), c.env...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out.String(), errOut.String())
	}
	return out.String()
}

// calls uses the suite through the published port: without a token nothing, with one a run that works in a sandbox.
func (c *compose) calls(t *testing.T, token string, sandboxes bool) {
	testkit.Eventually(t, time.Minute, func() error {
		_, status, err := post(t, "/v1/runs:call", "", "hi")
		if err == nil && status != http.StatusUnauthorized {
			err = fmt.Errorf("without a token: status %d", status)
		}
		return err
	})
	text := "Write \"from a container\" to a.txt. Read a.txt."
	if sandboxes {
		text = "Write \"from a container\" to a.txt. Run `cat a.txt`."
	}
	answer, status, err := post(t, "/v1/runs:call", token, text)
	if err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v: %s", status, err, answer)
	}
	var got struct{ Run struct{ State, Text string } }
	if err := json.Unmarshal(answer, &got); err != nil {
		t.Fatal(err)
	}
	if got.Run.State != "RUN_STATE_COMPLETED" || !strings.Contains(got.Run.Text, "from a container") {
		t.Errorf("the run: %s", answer)
	}
}

func post(t *testing.T, path, token, text string) ([]byte, int, error) {
	body, err := json.Marshal(map[string]any{"input": map[string]string{"text": text}})
	if err != nil {
		return nil, 0, err
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1:7400"+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Gantry-Agent", "reviewer")
	req.Header.Set("Gantry-User", "ana")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return answer, resp.StatusCode, err
}
