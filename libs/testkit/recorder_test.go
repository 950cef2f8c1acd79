package testkit

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMain(m *testing.M) { LeakMain(m) }

func TestFailures(t *testing.T) {
	tests := map[string]struct {
		suite func(T)
		want  []string
	}{
		"passes":         {func(t T) { t.Run("a", func(t T) { t.Log("fine") }) }, nil},
		"error":          {func(t T) { t.Errorf("got %d", 1); t.Error("and", 2) }, []string{"suite: got 1", "suite: and 2"}},
		"fatal ends it":  {func(t T) { t.Fatal("no"); t.Error("not reached") }, []string{"suite: no"}},
		"in a subtest":   {func(t T) { t.Run("b c", func(t T) { t.Run("d", func(t T) { t.Fatalf("x") }) }) }, []string{"suite/b_c/d: x"}},
		"goes on after":  {func(t T) { t.Run("a", func(t T) { t.FailNow() }); t.Run("b", func(t T) { t.Error("y") }) }, []string{"suite/a: failed", "suite/b: y"}},
		"panic":          {func(t T) { t.Run("a", func(T) { panic("boom") }) }, []string{"suite/a: panic: boom"}},
		"skip is none":   {func(t T) { t.Run("a", func(t T) { t.Skip("later"); t.Error("not reached") }) }, nil},
		"clean-up fails": {func(t T) { t.Cleanup(func() { t.Error("left behind") }) }, []string{"suite: left behind"}},
		"fatal in clean-up keeps the next": {func(t T) {
			t.Cleanup(func() { t.Error("second") })
			t.Cleanup(func() { t.Fatal("first") })
		}, []string{"suite: first", "suite: second"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Failures(tt.suite)); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFailuresBehavesLikeATest(t *testing.T) {
	var dir string
	var ok bool
	failures := Failures(func(t T) {
		dir = t.TempDir()
		if err := os.WriteFile(dir+"/x", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GANTRY_TESTKIT_PROBE", "1")
		ok = t.Run("fails", func(t T) { t.Error("x") })
		if !t.Failed() {
			t.Error("a failed subtest does not fail its parent")
		}
		if t.Context().Err() != nil {
			t.Error("the context ended before the test")
		}
	})
	if ok || len(failures) != 1 {
		t.Errorf("Run = %v, failures %q", ok, failures)
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("TempDir is still there: %v", err)
	}
	if _, set := os.LookupEnv("GANTRY_TESTKIT_PROBE"); set {
		t.Error("Setenv outlives the test")
	}
}

func TestWrapRunsRealSubtests(t *testing.T) {
	ran := ""
	Wrap(t).Run("sub", func(t T) { ran = t.Name() })
	if !strings.HasSuffix(ran, "/sub") {
		t.Errorf("subtest name = %q", ran)
	}
}

func TestSkipMayBeForbidden(t *testing.T) {
	for _, tt := range []struct {
		require string
		fails   bool
	}{{"", false}, {"postgres", false}, {"docker", true}, {"postgres, docker", true}, {"all", true}} {
		t.Setenv(RequireEnv, tt.require)
		got := Failures(func(t T) { Skip(t, "docker", "no %s", "engine") })
		if (len(got) > 0) != tt.fails {
			t.Errorf("%s=%q: failures %q, want some: %v", RequireEnv, tt.require, got, tt.fails)
		}
	}
}

func TestEventually(t *testing.T) {
	n := 0
	Eventually(t, time.Minute, func() error {
		if n++; n < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	got := Failures(func(t T) { Eventually(t, time.Millisecond, func() error { return errors.New("never") }) })
	if len(got) != 1 || !strings.Contains(got[0], "never") {
		t.Errorf("failures = %q, want the last error", got)
	}
}
