package main

import (
	"path/filepath"

	"github.com/gantry-agents/gantry/libs/testkit"
)

// backend is one that can be tortured. Add a line to backends for each.
type backend struct {
	name string
	// replicas that use one store at once: one where a process owns its root.
	replicas int
	// settings returns the flags that all replicas share; dir is the run's own. It skips when the machine lacks the server.
	settings func(t testkit.T, dir string) (args []string)
	// routes are the prefixes that are kept in another store than the rest.
	routes []string
}

// shared is how many replicas use a store that can be shared.
const shared = 4

var backends = []backend{
	{name: "local", replicas: 1, settings: own("local")},
	{name: "sqlite", replicas: 1, settings: own("sqlite")},
	{name: "postgres", replicas: shared, settings: func(t testkit.T, _ string) []string {
		return []string{"--backend=postgres", "--postgres-dsn=" + testkit.Postgres(t)}
	}},
	{name: "redis", replicas: shared, settings: func(t testkit.T, _ string) []string {
		return []string{"--backend=redis", "--redis-url=" + testkit.Redis(t)}
	}},
	{name: "object", replicas: shared, settings: func(t testkit.T, _ string) []string {
		return []string{"--backend=object", "--object-url=" + testkit.S3(t)}
	}},
	// Parts of each bucket in two stores, with moves across.
	{name: "composite", replicas: shared, settings: func(t testkit.T, _ string) []string {
		return []string{
			"--backend=postgres", "--postgres-dsn=" + testkit.Postgres(t), "--redis-url=" + testkit.Redis(t), "--route=w0/d=redis", "--route=w1/x=redis", "--route=together/log=redis",
		}
	}, routes: []string{"w0/d", "w1/x", "together/log"}},
}

// own are the settings of a backend that needs no server.
func own(name string) func(testkit.T, string) []string {
	return func(_ testkit.T, dir string) []string {
		return []string{"--backend=" + name, "--data=" + filepath.Join(dir, "store")}
	}
}

func names() []string {
	out := make([]string, len(backends))
	for i, b := range backends {
		out[i] = b.name
	}
	return out
}
