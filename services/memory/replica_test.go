package memory_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/memory"
	"github.com/gantry-agents/gantry/services/memory/memorytest/memfs"
)

// TestTwoReplicas saves, searches and consolidates one bucket through two services with an index each.
func TestTwoReplicas(t *testing.T) {
	w := newWorld(t, memfs.Faults{}, access.Config{})
	users := []*user{
		newUser(t, w, w.memory(t, "m1", onDisk(t), memory.Deps{})), newUser(t, w, w.memory(t, "m2", onDisk(t), memory.Deps{})),
	}
	for i := range 6 {
		users[i%2].save(fmt.Sprintf("fact no%d", i))
		if hits := users[(i+1)%2].find(fmt.Sprintf("no%d", i)); len(hits) != 1 {
			t.Fatalf("the other replica finds %v", hits)
		}
	}
	var wg sync.WaitGroup
	for n, u := range users {
		wg.Go(func() {
			for i := range 5 {
				if _, err := u.memory.SaveFacts(u.ctx, &memoryv1.SaveFactsRequest{Facts: []*memoryv1.NewFact{{Text: fmt.Sprintf("during%dx%d", n, i)}}}); err != nil {
					t.Errorf("save: %v", err)
				}
				_, err := u.memory.Consolidate(u.ctx, &memoryv1.ConsolidateRequest{Method: memoryv1.Method_METHOD_RULES})
				if err != nil && errdefs.ReasonOf(err) != "CONFLICT" {
					t.Errorf("consolidate: %v", err)
				}
			}
		})
	}
	wg.Wait()
	users[0].consolidate(memoryv1.Method_METHOD_RULES)
	content := users[0].file("MEMORY.md")
	for n := range users {
		for i := range 5 {
			if c := strings.Count(content, fmt.Sprintf("- during%dx%d\n", n, i)); c != 1 {
				t.Errorf("during%dx%d is in MEMORY.md %d times", n, i, c)
			}
		}
	}
	if t.Failed() {
		t.Log(content)
	}
}

// TestDamagedIndexHeals damages the index on disk under a stopped service, and expects the next one to answer as if nothing had been.
func TestDamagedIndexHeals(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"cut":     func(t *testing.T, path string) { truncate(t, path, 10) },
		"removed": func(t *testing.T, path string) { os.Remove(path) },
		"zeroed": func(t *testing.T, path string) {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			truncate(t, path, 0)
			truncate(t, path, info.Size())
		},
	} {
		for _, pattern := range []string{"*.zap", "root.bolt", "index_meta.json"} {
			t.Run(name+" "+pattern, func(t *testing.T) {
				w := newWorld(t, memfs.Faults{}, access.Config{})
				cfg := onDisk(t)
				t.Run("before", func(t *testing.T) {
					u := newUser(t, w, w.memory(t, "m1", cfg, memory.Deps{}))
					u.save("herons are blue", "storks are white")
					u.find("herons")
				})
				damaged := 0
				err := filepath.WalkDir(cfg.IndexDir, func(path string, _ os.DirEntry, err error) error {
					if ok, _ := filepath.Match(pattern, filepath.Base(path)); ok && err == nil {
						damage(t, path)
						damaged++
					}
					return err
				})
				if err != nil || damaged == 0 {
					t.Fatalf("%d files were damaged, %v", damaged, err)
				}
				u := newUser(t, w, w.memory(t, "m2", cfg, memory.Deps{}))
				if hits := u.find("herons"); len(hits) != 1 {
					t.Errorf("found %v", hits)
				}
				u.save("cranes are grey")
				if hits := u.find("cranes"); len(hits) != 1 {
					t.Errorf("found %v", hits)
				}
			})
		}
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// TestIndexHeldByAnother has two services on one index directory: searching says so, saving works.
func TestIndexHeldByAnother(t *testing.T) {
	w := newWorld(t, memfs.Faults{}, access.Config{})
	cfg := onDisk(t)
	first := newUser(t, w, w.memory(t, "m1", cfg, memory.Deps{}))
	second := newUser(t, w, w.memory(t, "m2", cfg, memory.Deps{}))
	first.save("herons are blue")
	_, err := second.memory.Search(second.ctx, &memoryv1.SearchRequest{Query: "herons"})
	if errdefs.ReasonOf(err) != "INDEX_LOCKED" {
		t.Errorf("search: %v", err)
	}
	second.save("storks are white")
	if hits := first.find("storks"); len(hits) != 1 {
		t.Errorf("found %v", hits)
	}
}

// TestManyBuckets keeps more buckets in use than may be open.
func TestManyBuckets(t *testing.T) {
	w := newWorld(t, memfs.Faults{}, access.Config{})
	cfg := onDisk(t)
	cfg.IndexMemoryBytes = 2 << 20
	u := newUser(t, w, w.memory(t, "m", cfg, memory.Deps{}))
	var wg sync.WaitGroup
	for n := range 12 {
		wg.Go(func() {
			id := u.id
			id.User = fmt.Sprint("user", n)
			ctx := identity.NewContext(t.Context(), id)
			for i := range 3 {
				if _, err := u.memory.SaveFacts(ctx, &memoryv1.SaveFactsRequest{Facts: []*memoryv1.NewFact{{Text: fmt.Sprintf("user%d says no%d", n, i)}}}); err != nil {
					t.Errorf("save: %v", err)
				}
				answer, err := u.memory.Search(ctx, &memoryv1.SearchRequest{Query: "says"})
				if err != nil || len(answer.GetHits()) != i+1 {
					t.Errorf("user %d finds %v, %v", n, answer.GetHits(), err)
				}
			}
		})
	}
	wg.Wait()
}

// TestWhoseMidnight checks that the day of a ledger is that of the user's zone.
func TestWhoseMidnight(t *testing.T) {
	for _, c := range []struct{ zone, clock, want string }{
		{"Asia/Tokyo", "2026-05-09T15:30:00Z", "memory/2026-05-10.md"},
		{"America/Lima", "2026-05-09T03:30:00Z", "memory/2026-05-08.md"},
		{"Europe/Berlin", "2026-03-29T00:59:00Z", "memory/2026-03-29.md"}, // a minute before the clocks go forward
		{"Europe/Berlin", "2026-10-24T22:30:00Z", "memory/2026-10-25.md"},
		{"", "2026-05-09T23:59:00Z", "memory/2026-05-09.md"},
	} {
		now, err := time.Parse(time.RFC3339, c.clock)
		if err != nil {
			t.Fatal(err)
		}
		w := newWorld(t, memfs.Faults{}, access.Config{})
		u := newUser(t, w, w.memory(t, "m", inMemory(), memory.Deps{Clock: func() time.Time { return now }}))
		answer, err := u.memory.SaveFacts(u.ctx, &memoryv1.SaveFactsRequest{TimeZone: c.zone, Facts: []*memoryv1.NewFact{{Text: "herons are blue"}}})
		if err != nil || answer.GetPath() != c.want {
			t.Errorf("%s at %s: %v, %v; want %s", c.zone, c.clock, answer.GetPath(), err, c.want)
		}
		if hits := u.find("herons"); len(hits) != 1 || hits[0].GetPath() != c.want {
			t.Errorf("the reader looks elsewhere: %v", hits)
		}
		if answer := u.consolidate(memoryv1.Method_METHOD_RULES); answer.GetAdded() != 1 {
			t.Errorf("consolidation looks elsewhere: %v", answer)
		}
	}
}

// TestTenantsApart has the same agent, user and session in two tenants, which come from tokens alone.
func TestTenantsApart(t *testing.T) {
	secret := strings.Repeat("s", 32)
	w := newWorld(t, memfs.Faults{}, access.Config{Mode: access.ModeJWT, JWTAlgorithm: "HS256", JWTKey: config.Secret(secret)})
	u := newUser(t, w, w.memory(t, "m", onDisk(t), memory.Deps{}))
	as := func(tenant string, verbs ...string) *user {
		claims := access.ClientClaims{
			RegisteredClaims: jwt.RegisteredClaims{ExpiresAt: jwt.NewNumericDate(time.Now().Add(time.Hour))},
			Tenant:           tenant, User: "ana", Agents: []string{"*"}, Scopes: []string{"*"}, Verbs: verbs,
		}
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		copied := *u
		copied.ctx = access.NewTokenContext(u.ctx, token)
		return &copied
	}
	for _, scope := range []identity.Scope{identity.ScopeSession, identity.ScopeUser, identity.ScopeAgent, identity.ScopeGlobal} {
		u.id.Scope = scope
		u.ctx = identity.NewContext(t.Context(), u.id)
		acme, globex := as("acme", "*"), as("globex", "*")
		acme.save("tok-acme in " + scope.String())
		globex.save("tok-globex in " + scope.String())
		for tenant, who := range map[string]*user{"acme": acme, "globex": globex} {
			for _, query := range []string{"tok", "tok-acme", "tok-globex"} {
				for _, h := range who.find(query) {
					if !strings.Contains(h.GetSnippet(), "tok-"+tenant+" in "+scope.String()) {
						t.Errorf("%s in scope %s finds %q", tenant, scope, h.GetSnippet())
					}
				}
			}
			if got, err := who.memory.Get(who.ctx, &memoryv1.GetRequest{Path: "memory/" + time.Now().UTC().Format(time.DateOnly) + ".md"}); err != nil || got.GetTotalLines() != 4 {
				t.Errorf("%s in scope %s reads %v, %v", tenant, scope, got, err)
			}
		}
	}
	reader := as("acme", "memory.read", "fs.read")
	_, err := reader.memory.SaveFacts(reader.ctx, &memoryv1.SaveFactsRequest{Facts: []*memoryv1.NewFact{{Text: "not allowed"}}})
	if errdefs.ClassOf(err) != errdefs.ErrPermissionDenied {
		t.Errorf("saving with the verb to read: %v", err)
	}
	if _, err := u.memory.Search(u.ctx, &memoryv1.SearchRequest{Query: "tok"}); errdefs.ClassOf(err) != errdefs.ErrUnauthenticated {
		t.Errorf("searching without a token: %v", err)
	}
}
