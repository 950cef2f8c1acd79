package workspacetest

import (
	"context"

	"google.golang.org/protobuf/proto"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
)

// either is the text of a request, or of another one.
func either(other bool) string {
	if other {
		return "another text"
	}
	return "a text"
}

func withFile(s *suite) { s.write("ana", "f", "one two") }

func withTemplate(s *suite) { s.put("knowledge/k", "one two", "AGENTS.md", "rules") }

const template = filesystemv1.Layer_LAYER_TEMPLATE

// effectCases are the cases of each RPC, by names that say what is particular about them.
var effectCases = map[string]map[string]effectCase{
	"gantry.filesystem.v1.FilesystemService.Write": {
		"": {call: func(s *suite, ctx context.Context, other bool) (proto.Message, error) {
			return s.files.Write(ctx, &filesystemv1.WriteRequest{Path: "f", Content: []byte(either(other))})
		}},
		"to a template": {prepare: withTemplate, call: func(s *suite, ctx context.Context, other bool) (proto.Message, error) {
			return s.files.Write(ctx, &filesystemv1.WriteRequest{Path: "knowledge/k", Layer: template, Content: []byte(either(other))})
		}},
	},
	"gantry.filesystem.v1.FilesystemService.Edit": {
		"":              {prepare: withFile, call: editing("f", filesystemv1.Layer_LAYER_UNSPECIFIED)},
		"of a template": {prepare: withTemplate, call: editing("knowledge/k", template)},
	},
	"gantry.filesystem.v1.FilesystemService.Append": {
		"": {prepare: withFile, call: func(s *suite, ctx context.Context, other bool) (proto.Message, error) {
			return s.files.Append(ctx, &filesystemv1.AppendRequest{Path: "f", Content: []byte(either(other))})
		}},
	},
	"gantry.filesystem.v1.FilesystemService.Delete": {
		"":              {prepare: withFile, call: deleting("f", filesystemv1.Layer_LAYER_UNSPECIFIED)},
		"in a template": {prepare: withTemplate, call: deleting("knowledge/k", template)},
	},
	"gantry.filesystem.v1.FilesystemService.Move": {
		"": {prepare: withFile, call: func(s *suite, ctx context.Context, other bool) (proto.Message, error) {
			return s.files.Move(ctx, &filesystemv1.MoveRequest{FromPath: "f", ToPath: "g", Overwrite: other})
		}},
	},
	"gantry.filesystem.v1.FilesystemService.Upload": {
		"": {call: func(s *suite, ctx context.Context, other bool) (proto.Message, error) {
			stream, err := s.files.Upload(ctx)
			if err != nil {
				return nil, err
			}
			// What the server refuses is the answer of CloseAndRecv.
			_ = stream.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Header{Header: &filesystemv1.UploadHeader{Path: "f"}}})
			_ = stream.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Chunk{Chunk: []byte(either(other))}})
			return stream.CloseAndRecv()
		}},
	},
	"gantry.filesystem.v1.FilesystemService.RestoreRevision": {
		"": {prepare: func(s *suite) {
			withFile(s)
			s.write("ana", "f", "two")
		}, call: func(s *suite, ctx context.Context, other bool) (proto.Message, error) {
			all, err := s.files.ListRevisions(s.as("ana"), &filesystemv1.ListRevisionsRequest{Path: "f"})
			s.ok(err)
			oldest := len(all.GetRevisions()) - 1
			if other {
				oldest--
			}
			return s.files.RestoreRevision(ctx, &filesystemv1.RestoreRevisionRequest{Path: "f", Revision: all.GetRevisions()[oldest].GetRevision()})
		}},
	},
	"gantry.filesystem.v1.FilesystemService.ApplyChanges": {
		"":              {prepare: withFile, call: applying("f", filesystemv1.Layer_LAYER_UNSPECIFIED)},
		"to a template": {prepare: withTemplate, call: applying("knowledge/k", template)},
	},
	"gantry.workspace.v1.WorkspaceService.PutAgentTemplate": {
		"": {prepare: withTemplate, call: func(s *suite, ctx context.Context, other bool) (proto.Message, error) {
			return s.workspaces.PutAgentTemplate(ctx, &workspacev1.PutAgentTemplateRequest{Agent: s.agent, Files: templateFiles("AGENTS.md", either(other)), Overwrite: true})
		}},
	},
	"gantry.workspace.v1.WorkspaceService.DeleteAgentTemplate": {
		"": {prepare: withTemplate, alone: true, call: func(s *suite, ctx context.Context, _ bool) (proto.Message, error) {
			return s.workspaces.DeleteAgentTemplate(ctx, &workspacev1.DeleteAgentTemplateRequest{Agent: s.agent})
		}},
	},
	"gantry.workspace.v1.WorkspaceService.ForgetBucket": {
		"": {prepare: withFile, alone: true, call: func(s *suite, ctx context.Context, _ bool) (proto.Message, error) {
			return s.workspaces.ForgetBucket(ctx, &workspacev1.ForgetBucketRequest{Confirm: true})
		}},
	},
	"gantry.workspace.v1.WorkspaceService.ImportWorkspace": {
		"": {exempt: "a repeat takes over what is new and nothing twice, and never changes what exists"},
	},
}

func editing(path string, layer filesystemv1.Layer) func(*suite, context.Context, bool) (proto.Message, error) {
	return func(s *suite, ctx context.Context, other bool) (proto.Message, error) {
		return s.files.Edit(ctx, &filesystemv1.EditRequest{
			Path: path, Layer: layer, Replacements: []*filesystemv1.Replacement{{OldText: "two", NewText: either(other)}},
		})
	}
}

func deleting(path string, layer filesystemv1.Layer) func(*suite, context.Context, bool) (proto.Message, error) {
	return func(s *suite, ctx context.Context, other bool) (proto.Message, error) {
		return s.files.Delete(ctx, &filesystemv1.DeleteRequest{Path: path, Layer: layer, Recursive: other})
	}
}

func applying(path string, layer filesystemv1.Layer) func(*suite, context.Context, bool) (proto.Message, error) {
	return func(s *suite, ctx context.Context, other bool) (proto.Message, error) {
		return s.files.ApplyChanges(ctx, &filesystemv1.ApplyChangesRequest{Changes: []*filesystemv1.FileChange{
			{Change: &filesystemv1.FileChange_Edit{Edit: &filesystemv1.EditRequest{
				Path: path, Layer: layer, Replacements: []*filesystemv1.Replacement{{OldText: "two", NewText: "three"}},
			}}},
			{Change: &filesystemv1.FileChange_Write{Write: &filesystemv1.WriteRequest{Path: "knowledge/n", Layer: layer, Content: []byte(either(other))}}},
		}})
	}
}
