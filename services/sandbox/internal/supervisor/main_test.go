package supervisor

import (
	"testing"
	"time"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

func TestOrphanWithUnsavedChangesIsKeptLonger(t *testing.T) {
	s := &Server{dir: t.TempDir(), spec: sandbox.Spec{ID: "s1"}}
	c := Open(s.dir, s.spec, nil)
	want := func(what string, d time.Duration) {
		t.Helper()
		if got := s.patience(); got != d {
			t.Errorf("%s: %s, want %s", what, got, d)
		}
	}
	want("by default", time.Hour)
	s.spec.OrphanTimeout = time.Minute
	want("as its spec says", time.Minute)
	for range 2 {
		if err := c.SetUnsaved(true); err != nil {
			t.Fatal(err)
		}
	}
	want("unsaved", unsavedTimeout)
	for range 2 {
		if err := c.SetUnsaved(false); err != nil {
			t.Fatal(err)
		}
	}
	want("saved again", time.Minute)
	s.touch()
	if s.idle(s.patience()) {
		t.Error("it ends although somebody has just asked")
	}
	s.lastUsed.Store(time.Now().Add(-2 * time.Minute).UnixNano())
	if !s.idle(s.patience()) {
		t.Error("it goes on although nobody has asked for two minutes")
	}
}
