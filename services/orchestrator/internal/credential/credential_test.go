package credential_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/credential"
)

// clock is a time that a test moves.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

func setUp(t *testing.T) (*credential.Issuer, *access.Verifier, *clock) {
	t.Helper()
	c := &clock{time.Now().Truncate(time.Second)}
	minter, err := access.NewMinter(nil, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	return credential.NewIssuer(minter, c.Now), access.NewVerifier(minter.KeySet(), c.Now), c
}

var ana = identity.Identity{Tenant: "acme", Agent: "coder", User: "ana", Session: "s"}

func capability(t *testing.T) access.Capability {
	t.Helper()
	b, err := ana.Bucket()
	if err != nil {
		t.Fatal(err)
	}
	return access.Capability{Identity: ana, Bucket: b, Run: "r", Epoch: 3, Verbs: []string{"fs.read", "fs.write", "exec"}}
}

func TestATokenIsReplacedBeforeItEnds(t *testing.T) {
	issuer, verifier, c := setUp(t)
	cred := issuer.For(capability(t))
	first, err := cred.Token()
	if err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(3 * time.Minute)
	if again, err := cred.Token(); err != nil || again != first {
		t.Errorf("a fresh token was minted after three minutes: %v", err)
	}
	c.now = c.now.Add(90 * time.Second)
	later, err := cred.Token()
	if err != nil || later == first {
		t.Fatalf("the token was not replaced: %v", err)
	}
	c.now = c.now.Add(2 * time.Minute)
	if _, err := verifier.Verify(later); err != nil {
		t.Errorf("the new token: %v", err)
	}
	if _, err := verifier.Verify(first); err == nil {
		t.Error("the old token still counts")
	}
}

func TestNarrowNeverWidens(t *testing.T) {
	issuer, verifier, _ := setUp(t)
	cred := issuer.For(capability(t)).Narrow([]string{"fs.read", "memory.write"}, []string{"plans"})
	token, err := cred.Token()
	if err != nil {
		t.Fatal(err)
	}
	got, err := verifier.Verify(token)
	if err != nil || !slices.Equal(got.Verbs, []string{"fs.read"}) || !slices.Equal(got.PathPrefixes, []string{"plans"}) {
		t.Errorf("the capability is %v, %v", got, err)
	}
	if got.Run != "r" || got.Epoch != 3 || got.Bucket.User != "ana" {
		t.Errorf("the capability is %v", got)
	}
}

// conn keeps the context of the last call.
type conn struct {
	grpc.ClientConnInterface
	ctx context.Context
}

func (c *conn) Invoke(ctx context.Context, _ string, _, _ any, _ ...grpc.CallOption) error {
	c.ctx = ctx
	return nil
}

func TestCallsCarryTheCredentialOfTheContextElseOneOfTheIdentity(t *testing.T) {
	issuer, verifier, _ := setUp(t)
	inner := &conn{}
	wrapped := credential.Conn(inner, issuer)
	verbs := func(ctx context.Context) access.Capability {
		t.Helper()
		if err := wrapped.Invoke(ctx, "/x", nil, nil); err != nil {
			t.Fatal(err)
		}
		got, err := verifier.Verify(access.TokenFromContext(inner.ctx))
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	ctx := identity.NewContext(context.Background(), ana)
	if got := verbs(credential.NewContext(ctx, issuer.For(capability(t)))); !slices.Contains(got.Verbs, "exec") {
		t.Errorf("of a run: %v", got.Verbs)
	}
	if got := verbs(ctx); slices.Contains(got.Verbs, "exec") || got.Identity.Tenant != "acme" || got.Bucket.User != "ana" {
		t.Errorf("of the orchestrator: %v", got)
	}
	// Without a session or a user no bucket follows, so none is reached.
	if got := verbs(identity.NewContext(context.Background(), identity.Identity{Tenant: "acme", Agent: "coder"})); slices.Contains(got.Verbs, "fs.read") {
		t.Errorf("of nobody: %v", got.Verbs)
	}
}

func TestWithoutAMinterNothingIsAdded(t *testing.T) {
	var issuer = credential.NewIssuer(nil, time.Now)
	inner := &conn{}
	if got := credential.Conn(inner, issuer); got != grpc.ClientConnInterface(inner) {
		t.Error("the connection is wrapped")
	}
	if cred := issuer.For(access.Capability{}); cred.Narrow(nil, nil) != nil || issuer.Service(ana) != nil {
		t.Error("there is a credential")
	}
}
