package identity_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

func TestBucket(t *testing.T) {
	full := identity.Identity{Tenant: "t", Agent: "coder", User: "ana", Session: "s1"}
	with := func(change func(*identity.Identity)) identity.Identity {
		id := full
		change(&id)
		return id
	}
	tests := map[string]struct {
		id     identity.Identity
		want   string
		reason string
	}{
		"zero scope is user":         {full, "t/user/coder/ana", ""},
		"session":                    {with(func(id *identity.Identity) { id.Scope = identity.ScopeSession }), "t/session/coder/ana/s1", ""},
		"agent":                      {with(func(id *identity.Identity) { id.Scope = identity.ScopeAgent }), "t/agent/coder", ""},
		"global":                     {with(func(id *identity.Identity) { id.Scope = identity.ScopeGlobal }), "t/global", ""},
		"user without user degrades": {with(func(id *identity.Identity) { id.User = "" }), "t/session/coder/~/s1", ""},
		"anonymous session":          {with(func(id *identity.Identity) { id.User, id.Scope = "", identity.ScopeSession }), "t/session/coder/~/s1", ""},
		"agent never degrades":       {with(func(id *identity.Identity) { id.User, id.Session, id.Scope = "", "", identity.ScopeAgent }), "t/agent/coder", ""},
		"global never degrades":      {with(func(id *identity.Identity) { id.User, id.Session, id.Scope = "", "", identity.ScopeGlobal }), "t/global", ""},
		"user without session":       {with(func(id *identity.Identity) { id.Session = "" }), "t/user/coder/ana", ""},
		"session without session id": {with(func(id *identity.Identity) { id.Session, id.Scope = "", identity.ScopeSession }), "", identity.ReasonRequired},
		"nobody and no session":      {identity.Identity{Agent: "coder"}, "", identity.ReasonRequired},
		"defaults":                   {identity.Identity{User: "ana"}, "default/user/default/ana", ""},
		"malformed id":               {with(func(id *identity.Identity) { id.User = "a\nb" }), "", identity.ReasonMalformed},
		"no such scope":              {with(func(id *identity.Identity) { id.Scope = 9 }), "", identity.ReasonMalformed},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b, err := tt.id.Bucket()
			if errdefs.ReasonOf(err) != tt.reason {
				t.Fatalf("error %v, want reason %q", err, tt.reason)
			}
			if err != nil {
				if !errors.Is(err, errdefs.ErrInvalidArgument) {
					t.Errorf("class of %v, want INVALID_ARGUMENT", err)
				}
				return
			}
			if got := b.Key(); got != tt.want {
				t.Errorf("Key = %q, want %q", got, tt.want)
			}
		})
	}
}

// manyBuckets returns the buckets of every scope over odd ids.
func manyBuckets(t *testing.T) map[identity.Bucket]bool {
	ids := []string{"a", "A", "a/b", "b/c", "c", "..", "~", "user", "thread", "session", "Ü", strings.Repeat("Ü", 128), "a ", "global"}
	buckets := map[identity.Bucket]bool{}
	for _, tenant := range []string{"default", "a", "a/b"} {
		for i, agent := range ids {
			for j, user := range append([]string{""}, ids...) {
				for scope := identity.ScopeUser; scope <= identity.ScopeGlobal; scope++ {
					id := identity.Identity{Tenant: tenant, Agent: agent, User: user, Session: ids[(i+j)%len(ids)], Scope: scope}
					b, err := id.Bucket()
					if err != nil {
						t.Fatal(err)
					}
					buckets[b] = true
				}
			}
		}
	}
	return buckets
}

func TestKeysRoundTripAndNoBucketLiesInAnother(t *testing.T) {
	keys := map[string]bool{}
	for b := range manyBuckets(t) {
		key := b.Key()
		if keys[key] {
			t.Errorf("two buckets have the key %q", key)
		}
		keys[key] = true
		got, err := identity.ParseBucket(key)
		if err != nil || got != b {
			t.Errorf("ParseBucket(%q) = %+v, %v; want %+v", key, got, err, b)
		}
		if _, err := identity.ParseThread(key); err == nil {
			t.Errorf("%q is the key of a bucket and of a thread", key)
		}
	}
	for key := range keys {
		for i := range len(key) {
			if key[i] == '/' && keys[key[:i]] {
				t.Errorf("bucket %q lies in bucket %q", key, key[:i])
			}
		}
	}
}

func TestParseBucketRefusesOtherTexts(t *testing.T) {
	for _, key := range []string{
		"", "default", "default/user", "default/user/a", "default/user/a/b/c", "default/session/a/b", "default/global/x", "default/agent",
		"default/nope/a", "default/~/a", "~/global", "default/user/a/~", "default/user/~/ana", "Default/global", "default//global", "default/user/a/b/",
		"/default/global", "default/session/a/b/~", "default/thread/a/b/c", "default/user/a/=61",
	} {
		if b, err := identity.ParseBucket(key); err == nil {
			t.Errorf("ParseBucket(%q) = %+v, want an error", key, b)
		} else if errdefs.ReasonOf(err) != identity.ReasonMalformed {
			t.Errorf("ParseBucket(%q): reason %q", key, errdefs.ReasonOf(err))
		}
	}
}

func TestThread(t *testing.T) {
	tests := map[string]struct {
		id   identity.Identity
		want string
	}{
		"scope does not count": {identity.Identity{Tenant: "t", Agent: "g", User: "u", Session: "s", Scope: identity.ScopeGlobal}, "t/thread/g/u/s"},
		"anonymous":            {identity.Identity{Tenant: "t", Agent: "g", Session: "s"}, "t/thread/g/~/s"},
		"defaults":             {identity.Identity{Session: "s"}, "default/thread/default/~/s"},
		"odd ids":              {identity.Identity{Agent: "a/b", User: "~", Session: strings.Repeat("x", 256)}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			thread, err := tt.id.Thread()
			if err != nil {
				t.Fatal(err)
			}
			if tt.want != "" && thread.Key() != tt.want {
				t.Errorf("Key = %q, want %q", thread.Key(), tt.want)
			}
			got, err := identity.ParseThread(thread.Key())
			if err != nil || got != thread {
				t.Errorf("ParseThread(%q) = %+v, %v", thread.Key(), got, err)
			}
			if _, err := identity.ParseBucket(thread.Key()); err == nil {
				t.Error("the key of a thread is the key of a bucket as well")
			}
		})
	}
	if _, err := (identity.Identity{User: "u"}).Thread(); errdefs.ReasonOf(err) != identity.ReasonRequired {
		t.Errorf("without a session: %v", err)
	}
	for _, key := range []string{"", "t/thread/g/u", "t/user/g/u/s", "t/thread/~/u/s", "t/thread/g/u/~", "t/thread/g/u/s/x"} {
		if _, err := identity.ParseThread(key); err == nil {
			t.Errorf("ParseThread(%q) succeeded", key)
		}
	}
}

func TestBucketFromContext(t *testing.T) {
	id := identity.Identity{Tenant: "t", Agent: "child", User: "ana", Session: "s2", Scope: identity.ScopeSession}
	parent := identity.Bucket{Tenant: "t", Scope: identity.ScopeSession, Agent: "coder", User: "ana", Session: "s1"}
	own, err := id.Bucket()
	if err != nil {
		t.Fatal(err)
	}
	ctx := identity.NewContext(t.Context(), id)
	shared := identity.NewBucketContext(ctx, parent)
	withEffect := id
	withEffect.Effect, withEffect.RequestID = "e", "r"
	other := id
	other.User = "ben"
	otherBucket, err := other.Bucket()
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		ctx  context.Context
		want identity.Bucket
	}{
		"of the identity":                     {ctx, own},
		"of the capability":                   {shared, parent},
		"kept when only the effect changes":   {identity.NewContext(shared, withEffect), parent},
		"dropped when somebody else is meant": {identity.NewContext(shared, other), otherBucket},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := identity.BucketFromContext(tt.ctx)
			if err != nil || got != tt.want {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
		})
	}
	if _, err := identity.BucketFromContext(t.Context()); errdefs.ReasonOf(err) != identity.ReasonRequired {
		t.Errorf("without an identity: %v", err)
	}
	if _, err := identity.ThreadFromContext(t.Context()); errdefs.ReasonOf(err) != identity.ReasonRequired {
		t.Errorf("thread without an identity: %v", err)
	}
	if thread, err := identity.ThreadFromContext(ctx); err != nil || thread.Session != "s2" {
		t.Errorf("thread: %v, %v", thread, err)
	}
}

func TestValidate(t *testing.T) {
	tests := map[string]struct {
		id identity.Identity
		ok bool
	}{
		"zero":              {identity.Identity{}, true},
		"odd but legal":     {identity.Identity{Agent: "a/b:c", User: "../Ü🙂 ", Session: "cid9+/Q=="}, true},
		"256 bytes":         {identity.Identity{User: strings.Repeat("a", 256)}, true},
		"257 bytes":         {identity.Identity{User: strings.Repeat("a", 257)}, false},
		"newline":           {identity.Identity{Session: "a\nb"}, false},
		"NUL":               {identity.Identity{Agent: "a\x00"}, false},
		"C1 control":        {identity.Identity{Agent: "a\u0085"}, false},
		"not UTF-8":         {identity.Identity{Tenant: "\xff"}, false},
		"effect is checked": {identity.Identity{Effect: strings.Repeat("a", 257)}, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err := tt.id.Validate()
			if (err == nil) != tt.ok {
				t.Fatalf("Validate = %v, want ok = %v", err, tt.ok)
			}
			if err != nil && errdefs.ReasonOf(err) != identity.ReasonMalformed {
				t.Errorf("reason %q", errdefs.ReasonOf(err))
			}
		})
	}
}

func TestParseScope(t *testing.T) {
	for scope := identity.ScopeUser; scope <= identity.ScopeGlobal; scope++ {
		if got, err := identity.ParseScope(scope.String()); err != nil || got != scope {
			t.Errorf("ParseScope(%q) = %v, %v", scope.String(), got, err)
		}
	}
	if got, err := identity.ParseScope(""); err != nil || got != identity.ScopeUser {
		t.Errorf("the default scope = %v, %v", got, err)
	}
	for _, text := range []string{"User", "users", " user", "invalid"} {
		if _, err := identity.ParseScope(text); errdefs.ReasonOf(err) != identity.ReasonMalformed {
			t.Errorf("ParseScope(%q): %v", text, err)
		}
	}
}

// FuzzParseBucket holds that only what Key writes is a key.
func FuzzParseBucket(f *testing.F) {
	for _, key := range []string{"default/user/coder/ana", "default/global", "a+/b/session/c/~/d", "t/agent/=41"} {
		f.Add(key)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if b, err := identity.ParseBucket(key); err == nil && b.Key() != key {
			t.Fatalf("%q parses to a bucket with the key %q", key, b.Key())
		}
		if thread, err := identity.ParseThread(key); err == nil && thread.Key() != key {
			t.Fatalf("%q parses to a thread with the key %q", key, thread.Key())
		}
	})
}
