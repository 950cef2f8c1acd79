// Package caller finds out on whose behalf a call is made: its bucket with the layers below, and what it may do there. It is shared by the services that this
// module serves.
package caller

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/templates"
)

// The verbs that matter here.
const (
	VerbRead       = "fs.read"
	VerbWrite      = "fs.write"
	VerbDefinition = "definition.write"
	VerbTemplate   = "template.write"
	VerbMemory     = "memory.write"
)

// Resolver makes callers.
type Resolver struct {
	Store     files.Store
	Templates *templates.Templates
	Limits    files.Limits
	Now       func() time.Time
}

// Caller is one call's bucket and grant.
type Caller struct {
	// Identity of the call.
	Identity identity.Identity
	// Bucket of the call.
	Bucket identity.Bucket
	// Grant of the call.
	Grant access.Grant
	// View of the bucket over its layers.
	View *files.View
	// Template of the caller's agent.
	Template templates.Template

	resolver *Resolver
}

// Open resolves a call. A context without a grant is refused: it did not pass through the chain of a server.
func (r *Resolver) Open(ctx context.Context) (*Caller, error) {
	grant, ok := access.FromContext(ctx)
	id, known := identity.FromContext(ctx)
	if !ok || !known {
		return nil, errNoCaller()
	}
	bucket, err := identity.BucketFromContext(ctx)
	if err != nil {
		return nil, err
	}
	agent := id.Agent
	if bucket.Agent != "" {
		agent = bucket.Agent
	}
	c := &Caller{Identity: id, Bucket: bucket, Grant: grant, resolver: r}
	c.View, c.Template, err = r.View(ctx, bucket, agent)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// View returns the view of a bucket over the layers below it, and the template of its agent. It asks for no grant: that is for whoever calls it.
func (r *Resolver) View(ctx context.Context, bucket identity.Bucket, agent string) (view *files.View, template templates.Template, err error) {
	var lower []files.Lower
	space := files.BucketSpace(bucket)
	if !r.IsTemplate(space) {
		lower, template, err = r.Templates.Lower(ctx, bucket, agent)
	} else {
		template, err = r.Templates.Of(ctx, bucket.Tenant, agent)
	}
	if err != nil {
		return nil, template, err
	}
	return files.NewView(r.Store, space, lower, r.Limits, r.Now), template, nil
}

// OpenTenant resolves a call that concerns the tenant's agents and no bucket.
func (r *Resolver) OpenTenant(ctx context.Context) (*Caller, error) {
	grant, ok := access.FromContext(ctx)
	id, known := identity.FromContext(ctx)
	if !ok || !known {
		return nil, errNoCaller()
	}
	return &Caller{Identity: id, Grant: grant, resolver: r}, nil
}

func errNoCaller() error {
	return errdefs.New(errdefs.ErrUnauthenticated, errdefs.DomainCommon, "", "the call has no identity or no grant")
}

// IsTemplate says whether a space is a template's directory itself: then nothing lies below it.
func (r *Resolver) IsTemplate(space files.Space) bool {
	mounted, ok := r.Store.(interface{ Mounted(files.Space) bool })
	return ok && mounted.Mounted(space)
}

// Call is what a change brings along: effect and author. The request is hashed, so that a repeat is told from another request under the same id.
func (c *Caller) Call(method string, request proto.Message, more ...string) (files.Call, error) {
	call := files.Call{Author: c.author(), Effect: files.Effect{ID: c.Identity.Effect}}
	if call.Effect.ID == "" {
		return call, nil
	}
	if err := effect.Check(call.Effect.ID, c.resolver.Now()); err != nil {
		if errdefs.ReasonOf(err) == effect.ReasonExpired {
			return call, fsops.ErrEffectExpired(call.Effect.ID)
		}
		return call, err
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return call, err
	}
	h := sha256.New()
	for _, part := range append([]string{method, string(raw)}, more...) {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	call.Effect.Hash = hex.EncodeToString(h.Sum(nil))
	return call, nil
}

func (c *Caller) author() string {
	if c.Grant.Run != "" {
		return "run:" + c.Grant.Run
	}
	return c.Identity.User
}

// MayRead checks that the grant covers a path.
func (c *Caller) MayRead(p fsops.Path) error { return c.covers(p, VerbRead) }

func (c *Caller) covers(p fsops.Path, verb string) error {
	if c.Grant.AllowsPath(p.String()) {
		return nil
	}
	return fsops.ErrPathNotAllowed(p.String(), verb)
}

// MayList checks that the grant covers a directory, or something below it.
func (c *Caller) MayList(dir fsops.Path) error {
	if c.Shows(dir) {
		return nil
	}
	return fsops.ErrPathNotAllowed(dir.String(), VerbRead)
}

// Shows says whether a listing may show a path: it is covered, or leads to something that is.
func (c *Caller) Shows(p fsops.Path) bool {
	if c.Grant.AllowsPath(p.String()) {
		return true
	}
	for _, prefix := range c.Grant.PathPrefixes {
		if at, err := fsops.ParsePath(prefix); err == nil && at.Under(p) {
			return true
		}
	}
	return false
}

// Allowed says whether a search may look at a path; nil for a grant without limits.
func (c *Caller) Allowed() func(fsops.Path) bool {
	if c.Grant.PathPrefixes == nil {
		return nil
	}
	return func(p fsops.Path) bool { return c.Grant.AllowsPath(p.String()) }
}

// MayWrite checks that the grant covers a path for writing, and that it has the verb that files of the definition need.
func (c *Caller) MayWrite(p fsops.Path) error {
	if err := c.covers(p, VerbWrite); err != nil {
		return err
	}
	if IsDefinition(p) && !c.Grant.Allows(VerbDefinition) {
		return fsops.ErrReadOnly(p.String(), VerbDefinition)
	}
	if isMemoryRecord(p) && !c.Grant.Allows(VerbMemory) {
		return fsops.ErrReadOnly(p.String(), VerbMemory)
	}
	return nil
}

// isMemoryRecord says whether a path holds what the memory service knows about facts, beside their text: an agent's file tools may write its
// memory, and must not be able to forge where a fact comes from.
func isMemoryRecord(p fsops.Path) bool {
	names := strings.SplitN(p.Key(), "/", 3)
	return strings.EqualFold(names[0], "memory") && (len(names) == 1 || strings.HasPrefix(names[1], "."))
}

// IsDefinition says whether a path belongs to what an agent is: AGENTS.md, tools.json, agent.yaml, subagents/, and skills/ except the drafts. Letter case does not matter,
// since it doesn't on every disk.
func IsDefinition(p fsops.Path) bool {
	names := strings.SplitN(p.Key(), "/", 3)
	switch strings.ToLower(names[0]) {
	case "agents.md", "tools.json", templates.SettingsFile, "subagents":
		return true
	case "skills":
		return len(names) < 2 || names[1] != "_drafts"
	}
	return false
}

// Target is where a change of a layer goes: a view, and the path in it.
type Target struct {
	View *files.View
	// Layer that is written.
	Layer files.Layer
	// base is the place in View of the root that the caller sees.
	base fsops.Path
}

// Target returns where changes of a layer go. Lower layers need the verb template.write and a stored template: a template's directory is its engineers'.
func (c *Caller) Target(layer files.Layer, p fsops.Path) (Target, error) {
	if layer == files.LayerAny || layer == files.LayerBucket {
		return Target{View: c.View, Layer: files.LayerBucket}, nil
	}
	if !c.Grant.Allows(VerbTemplate) {
		return Target{}, fsops.ErrReadOnly(p.String(), VerbTemplate)
	}
	if c.Template.Kind == templates.KindDirectory {
		return Target{}, fsops.ErrReadOnly(p.String(), "")
	}
	t := Target{Layer: layer, View: files.NewView(c.resolver.Store, files.TemplateSpace(c.Bucket.Tenant, c.Identity.Agent), nil, files.Limits{}, c.resolver.Now)}
	if layer == files.LayerUser {
		if c.Bucket.User == "" {
			return Target{}, fsops.ErrReadOnly(p.String(), "")
		}
		t.base = c.Template.UserDir(c.Bucket.User)
	}
	return t, nil
}

// Path is the path in the target's view.
func (t Target) Path(p fsops.Path) fsops.Path { return t.base.Join(p.String()) }

// Entry is an entry of the target's view as the caller sees it.
func (t Target) Entry(e files.Entry) files.Entry {
	e.Layer = t.Layer
	if e.Exists() {
		e.Path = e.Path.Rebase(t.base, fsops.Path{})
	}
	return e
}

// IsNotFound says whether an error is of the class NOT_FOUND.
func IsNotFound(err error) bool { return errors.Is(err, errdefs.ErrNotFound) }
