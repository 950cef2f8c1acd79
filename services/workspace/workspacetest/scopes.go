package workspacetest

import (
	"context"
	"fmt"
	"time"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// with is the context of a call under an identity of the suite's agent.
func (s *suite) with(scope identity.Scope, user, session string) context.Context {
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	s.Cleanup(cancel)
	return identity.NewContext(ctx, identity.Identity{Agent: s.agent, Scope: scope, User: user, Session: session})
}

// rules are what a caller sees at AGENTS.md, with the layer.
func (s *suite) rules(ctx context.Context) string {
	s.Helper()
	got, err := s.files.Read(ctx, &filesystemv1.ReadRequest{Path: "AGENTS.md", Mode: filesystemv1.ReadMode_READ_MODE_BYTES})
	s.ok(err)
	return layerNames[got.GetInfo().GetLayer()] + ":" + string(got.GetData())
}

// Each scope has a bucket of its own over the agent's template; the user's override is there in the scopes of a user only.
func scopes(s *suite) {
	s.lay(layered())
	name := "scope-" + s.agent + ".txt" // the bucket of scope global is everybody's
	callers := []struct {
		scope         identity.Scope
		user, session string
		rules         string
	}{
		{identity.ScopeUser, "ana", "s1", "user:rules for ana"},
		{identity.ScopeSession, "ana", "s1", "user:rules for ana"},
		{identity.ScopeSession, "ana", "s2", "user:rules for ana"},
		{identity.ScopeUser, "ben", "s1", "template:rules"},
		{identity.ScopeSession, "ben", "s1", "template:rules"},
		{identity.ScopeAgent, "ana", "s1", "template:rules"},
		{identity.ScopeGlobal, "ana", "s1", "template:rules"},
	}
	if s.layers.Mounted {
		callers[5].rules = "bucket:rules"
	}
	for i, c := range callers {
		ctx := s.with(c.scope, c.user, c.session)
		if _, err := s.files.Stat(ctx, &filesystemv1.StatRequest{Path: name}); errdefs.ReasonOf(err) != "PATH_NOT_FOUND" {
			s.Errorf("%v sees the file of another bucket: %v", c, err)
		}
		if got := s.rules(ctx); got != c.rules {
			s.Errorf("%v has the rules %q, want %q", c, got, c.rules)
		}
		_, err := s.files.Write(ctx, &filesystemv1.WriteRequest{Path: name, Content: fmt.Append(nil, i)})
		s.ok(err)
	}
	for i, c := range callers {
		got, err := s.files.Read(s.with(c.scope, c.user, c.session), &filesystemv1.ReadRequest{Path: name, Mode: filesystemv1.ReadMode_READ_MODE_BYTES})
		if err != nil || string(got.GetData()) != fmt.Sprint(i) {
			s.Errorf("%v reads %q, %v, want %d", c, got.GetData(), err, i)
		}
	}
	// Who asks makes no difference in the scopes that belong to nobody.
	for _, c := range []struct {
		scope identity.Scope
		want  string
	}{{identity.ScopeAgent, "5"}, {identity.ScopeGlobal, "6"}} {
		for _, user := range []string{"ben", ""} {
			got, err := s.files.Read(s.with(c.scope, user, ""), &filesystemv1.ReadRequest{Path: name, Mode: filesystemv1.ReadMode_READ_MODE_BYTES})
			if err != nil || string(got.GetData()) != c.want {
				s.Errorf("scope %v for %q reads %q, %v", c.scope, user, got.GetData(), err)
			}
		}
	}
	_, err := s.files.Delete(s.with(identity.ScopeGlobal, "ana", ""), &filesystemv1.DeleteRequest{Path: name})
	s.ok(err)
}

// Who has no name works in the bucket of the session; who has neither name nor session has no bucket.
func anonymous(s *suite) {
	files := append(layered(), templateFiles("~/AGENTS.md", "rules for nobody", "~/knowledge/n.md", "needle")...)
	s.lay(files)
	write := func(ctx context.Context, content string) {
		s.Helper()
		_, err := s.files.Write(ctx, &filesystemv1.WriteRequest{Path: "mine.txt", Content: []byte(content)})
		s.ok(err)
	}
	read := func(ctx context.Context) string {
		s.Helper()
		got, err := s.files.Read(ctx, &filesystemv1.ReadRequest{Path: "mine.txt", Mode: filesystemv1.ReadMode_READ_MODE_BYTES})
		if err != nil {
			return errdefs.ReasonOf(err)
		}
		return string(got.GetData())
	}
	nobody := s.with(identity.ScopeUser, "", "s1")
	write(nobody, "nobody in s1")
	write(s.with(identity.ScopeUser, "", "s2"), "nobody in s2")
	write(s.with(identity.ScopeSession, "ana", "s1"), "ana in s1")
	for _, c := range []struct {
		ctx  context.Context
		want string
	}{
		{s.with(identity.ScopeUser, "", "s1"), "nobody in s1"}, {s.with(identity.ScopeSession, "", "s1"), "nobody in s1"}, {s.with(identity.ScopeUser, "", "s2"), "nobody in s2"},
		{s.with(identity.ScopeSession, "ana", "s1"), "ana in s1"}, {s.with(identity.ScopeUser, "ana", "s1"), "PATH_NOT_FOUND"}, {s.with(identity.ScopeUser, "~", "s1"), "PATH_NOT_FOUND"},
		{s.with(identity.ScopeUser, "", "s3"), "PATH_NOT_FOUND"}, {s.with(identity.ScopeAgent, "", "s1"), "PATH_NOT_FOUND"},
	} {
		if got := read(c.ctx); got != c.want {
			s.Errorf("reads %q, want %q", got, c.want)
		}
	}
	if got := s.rules(nobody); got != "template:rules" {
		s.Errorf("nobody has the rules %q", got)
	}
	for _, scope := range []identity.Scope{identity.ScopeUser, identity.ScopeSession} {
		ctx := s.with(scope, "", "")
		for name, call := range map[string]func() error{
			"stat":  func() error { _, err := s.files.Stat(ctx, &filesystemv1.StatRequest{}); return err },
			"list":  func() error { _, err := s.files.List(ctx, &filesystemv1.ListRequest{}); return err },
			"read":  func() error { _, err := s.files.Read(ctx, &filesystemv1.ReadRequest{Path: "AGENTS.md"}); return err },
			"write": func() error { _, err := s.files.Write(ctx, &filesystemv1.WriteRequest{Path: "x"}); return err },
			"delete": func() error {
				_, err := s.files.Delete(ctx, &filesystemv1.DeleteRequest{Path: "x"})
				return err
			},
			"glob": func() error { _, err := s.files.Glob(ctx, &filesystemv1.GlobRequest{Pattern: "*"}); return err },
			"grep": func() error {
				stream, err := s.files.Grep(ctx, &filesystemv1.GrepRequest{Pattern: "x"})
				if err == nil {
					_, err = stream.Recv()
				}
				return err
			},
			"watch": func() error {
				stream, err := s.files.Watch(ctx, &filesystemv1.WatchRequest{})
				if err == nil {
					_, err = stream.Recv()
				}
				return err
			},
			"usage": func() error { _, err := s.workspaces.GetUsage(ctx, &workspacev1.GetUsageRequest{}); return err },
			"definition": func() error {
				_, err := s.workspaces.GetDefinition(ctx, &workspacev1.GetDefinitionRequest{})
				return err
			},
			"forget": func() error {
				_, err := s.workspaces.ForgetBucket(ctx, &workspacev1.ForgetBucketRequest{Confirm: true})
				return err
			},
		} {
			if reason := errdefs.ReasonOf(call()); reason != "IDENTITY_REQUIRED" {
				s.Errorf("%s in scope %v without user and session: %q, want IDENTITY_REQUIRED", name, scope, reason)
			}
		}
	}
}
