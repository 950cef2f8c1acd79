package workspacetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// RunEffects proves that every RPC of FilesystemService and WorkspaceService that changes something happens once under one effect id. Which RPCs these are comes from the
// descriptors, so one that is added without a case here fails. connect returns a service and how to end it and start it again on the same data; restart may be nil.
func RunEffects(t testkit.T, connect func(t testkit.T) (conn grpc.ClientConnInterface, restart func() grpc.ClientConnInterface)) {
	for _, service := range []protoreflect.ServiceDescriptor{
		filesystemv1.File_gantry_filesystem_v1_filesystem_service_proto.Services().ByName("FilesystemService"),
		workspacev1.File_gantry_workspace_v1_workspace_service_proto.Services().ByName("WorkspaceService"),
	} {
		for i := range service.Methods().Len() {
			method := service.Methods().Get(i)
			cases := effectCases[string(method.FullName())]
			switch {
			case mutates(method) && len(cases) == 0:
				t.Errorf("%s changes something and has no case that proves its effect id", method.FullName())
			case !mutates(method) && len(cases) > 0:
				t.Errorf("%s changes nothing by its verbs and has a case", method.FullName())
			}
			for name, c := range cases {
				t.Run(strings.TrimSpace(string(method.Name())+" "+name), func(t testkit.T) { c.run(t, connect) })
			}
		}
	}
}

// mutates says whether an RPC changes something: it needs a verb for writing, or is the operator's.
func mutates(method protoreflect.MethodDescriptor) bool {
	access, _ := proto.GetExtension(method.Options(), commonv1.E_Access).(*commonv1.Access)
	return slices.ContainsFunc(access.GetVerbs(), func(verb string) bool { return strings.HasSuffix(verb, ".write") || verb == "admin" })
}

// effectCase is one RPC.
type effectCase struct {
	// prepare makes what the call needs, before it has an effect.
	prepare func(s *suite)
	// call makes the call, or another one that must not pass for it.
	call func(s *suite, ctx context.Context, other bool) (proto.Message, error)
	// alone says that there is no other request of that RPC.
	alone bool
	// exempt says why the RPC needs no effect.
	exempt string
}

func (c effectCase) run(t testkit.T, connect func(t testkit.T) (grpc.ClientConnInterface, func() grpc.ClientConnInterface)) {
	if c.exempt != "" {
		t.Log("needs no effect id: " + c.exempt)
		return
	}
	conn, restart := connect(t)
	s := &suite{T: t, workspaces: workspacev1.NewWorkspaceServiceClient(conn), files: filesystemv1.NewFilesystemServiceClient(conn)}
	s.agent = "wstest-" + strings.ToLower(rand.Text()[:10])
	if c.prepare != nil {
		c.prepare(s)
	}
	under := func(id string) context.Context {
		ctx := s.as("ana")
		who, _ := identity.FromContext(ctx)
		who.Effect = id
		return identity.NewContext(ctx, who)
	}
	_, err := c.call(s, under(effect.Random(time.Now().Add(-effect.MaxAge-time.Hour))), false)
	s.fails(err, errdefs.ErrFailedPrecondition, "EFFECT_EXPIRED")

	id := effect.Random(time.Now())
	first, err := c.call(s, under(id), false)
	s.ok(err)
	s.write("ana", "since", "what was written since")
	s.write("ana", "f", "changed since")
	before := s.everything()
	repeat := func(when string) {
		again, err := c.call(s, under(id), false)
		s.ok(err)
		if !proto.Equal(first, again) {
			s.Errorf("%s: the outcome is %v, first it was %v", when, again, first)
		}
		if after := s.everything(); after != before {
			s.Errorf("%s: it happened again:\n%s\nbefore:\n%s", when, after, before)
		}
	}
	repeat("a repeat")
	if !c.alone {
		_, err := c.call(s, under(id), true)
		s.fails(err, errdefs.ErrAborted, "EFFECT_MISMATCH")
		if after := s.everything(); after != before {
			s.Errorf("another request under the id took place:\n%s\nbefore:\n%s", after, before)
		}
	}
	if restart == nil {
		return
	}
	conn = restart()
	s.workspaces, s.files = workspacev1.NewWorkspaceServiceClient(conn), filesystemv1.NewFilesystemServiceClient(conn)
	repeat("a repeat after a restart")
	if _, err := c.call(s, under(effect.Random(time.Now())), false); err != nil && c.prepare == nil {
		s.Errorf("the same call under another id: %v", err)
	}
}

// everything is the state of bucket and template as text: names, revisions, fingerprint.
func (s *suite) everything() string {
	s.Helper()
	var out strings.Builder
	for token := ""; ; {
		page, err := s.files.List(s.as("ana"), &filesystemv1.ListRequest{Recursive: true, PageToken: token})
		s.ok(err)
		for _, e := range page.GetEntries() {
			fmt.Fprintf(&out, "%s %s %v\n", e.GetPath(), e.GetRevision(), e.GetLayer())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	template, err := s.workspaces.GetAgentTemplate(s.as("ana"), &workspacev1.GetAgentTemplateRequest{Agent: s.agent, NamesOnly: true})
	if err == nil {
		fmt.Fprintf(&out, "template %s\n", template.GetInfo().GetFingerprint())
	}
	return out.String()
}
