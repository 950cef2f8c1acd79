package run_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/internal/fakefs"
	"github.com/gantry-agents/gantry/libs/run"
)

func TestHealthAsksTheServiceThatRuns(t *testing.T) {
	r := start(t, &service{Server: fakefs.Echo()}, nil)
	address := r.serving(t)
	asked := start(t, &service{Server: fakefs.Echo()}, nil, "--health", "--address="+address)
	if code := <-asked.code; code != run.ExitOK {
		t.Errorf("exit code %d: %s", code, asked.log)
	}
	if len(asked.service.steps) != 0 {
		t.Errorf("the asking program started its service: %q", asked.service.steps)
	}
	r.stop()
	<-r.code
	nobody := start(t, &service{Server: fakefs.Echo()}, nil, "--health", "--address=unix:"+filepath.Join(t.TempDir(), "nobody"))
	if code := <-nobody.code; code != run.ExitFailed || strings.Count(nobody.log.String(), "\n") != 1 {
		t.Errorf("nobody serves: exit code %d: %s", code, nobody.log)
	}
	// All interfaces are an address to listen on, not one to connect to.
	wide := start(t, &service{Server: fakefs.Echo()}, nil, "--health", "--address=0.0.0.0:1")
	if code := <-wide.code; code != run.ExitFailed || !strings.Contains(wide.log.String(), "does not answer") {
		t.Errorf("0.0.0.0: exit code %d: %s", code, wide.log)
	}
}
