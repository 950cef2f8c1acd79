package replay

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
)

// kept is a file service that has some revisions.
type kept struct {
	fsv1.FilesystemServiceClient
	texts map[string]string // by path and revision
}

func (k kept) Read(_ context.Context, req *fsv1.ReadRequest, _ ...grpc.CallOption) (*fsv1.ReadResponse, error) {
	text, ok := k.texts[req.GetPath()+"@"+req.GetRevision()]
	if !ok {
		return nil, errdefs.New(errdefs.ErrNotFound, errdefs.DomainCommon, "", "no such revision")
	}
	return &fsv1.ReadResponse{Text: text}, nil
}

func TestMaterialIsThatOfThen(t *testing.T) {
	p := &replaying{Replayer: Replayer{Files: kept{texts: map[string]string{"MEMORY.md@1": "seven"}}}, ctx: t.Context()}
	now := []definition.Text{
		{Path: "AGENTS.md", Revision: "7", Text: "same"},
		{Path: "MEMORY.md", Revision: "2", Text: "nine"},
		{Path: "knowledge/KNOWLEDGE.md", Revision: "4", Text: "came later"},
		{Path: "notes.md", Revision: "9", Text: "now"},
		{},
	}
	texts, gone, err := p.material(t.Context(), now, []*threadv1.ContextItem{
		{Kind: "base_prompt"}, {Kind: "project_rules", Source: "AGENTS.md", Revision: "7"}, {Kind: "memory", Source: "MEMORY.md", Revision: "1"},
		{Kind: "additional", Source: "notes.md", Revision: "3"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]definition.Text{
		"MEMORY.md": {Path: "MEMORY.md", Revision: "1", Text: "seven"}, "knowledge/KNOWLEDGE.md": {Path: "knowledge/KNOWLEDGE.md"},
	}, texts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"notes.md": true}, gone); diff != "" {
		t.Error(diff)
	}
}
