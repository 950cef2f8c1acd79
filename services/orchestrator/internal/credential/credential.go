// Package credential gives every call that leaves the orchestrator the capability that it needs.
//
// A capability lives for five minutes and a run for days, so a run holds a [Credential], which mints a token when one is needed and mints the next before
// the last one ends. What a stored run or task keeps is the grant, never a token.
package credential

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
)

// margin is how long before its end a token is replaced: a call that opens with it must still be accepted.
const margin = time.Minute

// Issuer makes credentials. Nil makes none: calls then carry whatever the context has.
type Issuer struct {
	minter *access.Minter
	now    func() time.Time
}

// NewIssuer makes an issuer. Without a minter it is nil.
func NewIssuer(minter *access.Minter, now func() time.Time) *Issuer {
	if minter == nil {
		return nil
	}
	return &Issuer{minter: minter, now: now}
}

// For makes the credential of a capability; nil without an issuer.
func (i *Issuer) For(c access.Capability) *Credential {
	if i == nil {
		return nil
	}
	return &Credential{issuer: i, capability: c}
}

// Credential is a capability that stays fresh.
type Credential struct {
	issuer     *Issuer
	capability access.Capability

	mu     sync.Mutex
	token  string
	expiry time.Time
}

// Token returns a token that is good for a while yet.
func (c *Credential) Token() (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.token != "" && c.issuer.now().Before(c.expiry.Add(-margin)) {
		return c.token, nil
	}
	token, expiry, err := c.issuer.minter.Mint(c.capability)
	if err != nil {
		return "", err
	}
	c.token, c.expiry = token, expiry
	return token, nil
}

// Narrow makes the credential of a part of the work: at most these verbs and paths. Nil leaves a side as it is.
func (c *Credential) Narrow(verbs, prefixes []string) *Credential {
	if c == nil {
		return nil
	}
	return &Credential{issuer: c.issuer, capability: c.capability.Narrow(verbs, prefixes)}
}

type contextKey struct{}

// NewContext returns ctx with the credential for calls that leave under it.
func NewContext(ctx context.Context, c *Credential) context.Context {
	if c == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, c)
}

// serviceVerbs are what the orchestrator itself needs on behalf of a caller, outside of runs: whether the caller may was checked when the call came in.
var serviceVerbs = []string{"fs.read", "thread.read", "thread.write", "task.read", "task.write", "memory.read", "agent.read", "agent.define", "template.write"}

// Service is the credential of work that the orchestrator does itself for an identity, such as reading its journal. An identity of which no bucket follows
// (anonymous, without a session) gets one that reaches threads only.
func (i *Issuer) Service(id identity.Identity) *Credential {
	if i == nil {
		return nil
	}
	if id.Tenant == "" {
		id.Tenant = identity.DefaultTenant
	}
	if id.Agent == "" {
		id.Agent = identity.DefaultAgent
	}
	verbs := serviceVerbs
	bucket, err := id.Bucket()
	if err != nil {
		bucket, verbs = identity.Bucket{Tenant: id.Tenant, Scope: identity.ScopeGlobal}, []string{"thread.read", "thread.write", "task.read", "task.write"}
	}
	return i.For(access.Capability{Identity: id, Bucket: bucket, Verbs: verbs})
}

// Conn wraps a connection to another service: each call carries the token of the context's credential, else one of the orchestrator itself for the
// context's identity. Without an issuer it is the connection as it is.
func Conn(inner grpc.ClientConnInterface, issuer *Issuer) grpc.ClientConnInterface {
	if issuer == nil || inner == nil {
		return inner
	}
	return &conn{inner, issuer}
}

type conn struct {
	inner  grpc.ClientConnInterface
	issuer *Issuer
}

func (c *conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx, err := c.attach(ctx)
	if err != nil {
		return err
	}
	return c.inner.Invoke(ctx, method, args, reply, opts...)
}

func (c *conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, err := c.attach(ctx)
	if err != nil {
		return nil, err
	}
	return c.inner.NewStream(ctx, desc, method, opts...)
}

func (c *conn) attach(ctx context.Context) (context.Context, error) {
	cred, ok := ctx.Value(contextKey{}).(*Credential)
	if !ok {
		id, _ := identity.FromContext(ctx)
		cred = c.issuer.Service(id)
	}
	token, err := cred.Token()
	if err != nil {
		return nil, err
	}
	return access.NewTokenContext(ctx, token), nil
}
