package workspace

import (
	"google.golang.org/protobuf/types/known/structpb"

	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/definition"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/filesystem"
)

func definitionOf(d definition.Definition) *workspacev1.Definition {
	out := &workspacev1.Definition{
		Rules: textOf(d.Rules), Memory: textOf(d.Memory), AgentConfig: structOf(d.AgentConfig), AgentConfigSource: sourceOf(d.AgentConfigEntry),
		Knowledge: &workspacev1.Knowledge{Main: textOf(d.Knowledge), Truncated: d.KnowledgeCut}, Fingerprint: d.Fingerprint,
	}
	for _, e := range d.KnowledgeFiles {
		path, _ := fsops.Text(e.Path.String())
		out.Knowledge.Files = append(out.Knowledge.Files, &workspacev1.KnowledgeFile{Path: path, SizeBytes: e.Size, Layer: filesystem.Layer(e.Layer)})
	}
	for _, s := range d.Skills {
		name, _ := fsops.Text(s.Name)
		out.Skills = append(out.Skills, &workspacev1.Skill{
			Name: name, Description: s.Description, Source: sourceOf(s.Entry), FrontMatter: structOf(s.FrontMatter), Body: s.Body, Files: s.Files,
		})
	}
	for _, s := range d.Subagents {
		id, _ := fsops.Text(s.ID)
		out.Subagents = append(out.Subagents, &workspacev1.Subagent{
			Id: id, Description: s.Description, Source: sourceOf(s.Entry), FrontMatter: structOf(s.FrontMatter), Body: s.Body,
		})
	}
	for _, t := range d.Tools {
		out.Tools = append(out.Tools, &workspacev1.ToolsLayer{Source: sourceOf(t.Entry), Config: structOf(t.Config)})
	}
	for _, p := range d.Problems {
		out.Problems = append(out.Problems, &workspacev1.Problem{
			Path: p.Path, Layer: filesystem.Layer(p.Layer), Reason: p.Reason, Message: p.Message, Line: int32(p.Line), Column: int32(p.Column), LeftOut: p.LeftOut,
		})
	}
	return out
}

func textOf(t definition.Text) *workspacev1.TextItem {
	return &workspacev1.TextItem{Source: sourceOf(t.Entry), Text: t.Text, Truncated: t.Truncated}
}

func sourceOf(e files.Entry) *workspacev1.Source {
	if e.Path.IsRoot() {
		return nil
	}
	path, _ := fsops.Text(e.Path.String())
	return &workspacev1.Source{Path: path, Layer: filesystem.Layer(e.Layer), Revision: e.Revision, Sha256: e.SHA256, SizeBytes: e.Size}
}

// structOf converts what JSON can say; nil stays nil. The readers of definitions make nothing else.
func structOf(fields map[string]any) *structpb.Struct {
	if fields == nil {
		return nil
	}
	out, err := structpb.NewStruct(fields)
	if err != nil {
		return nil
	}
	return out
}
