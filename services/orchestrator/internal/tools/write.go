package tools

import (
	"context"
	"fmt"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

type writeIn struct {
	Path    string `json:"path" jsonschema:"file to write, relative to the workspace"`
	Content string `json:"content" jsonschema:"the whole text of the file"`
}

type editIn struct {
	Path       string `json:"path" jsonschema:"file to edit"`
	OldString  string `json:"old_string" jsonschema:"text to replace, exactly as it stands in the file"`
	NewString  string `json:"new_string" jsonschema:"text to put in its place"`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"replace every occurrence; otherwise there must be exactly one"`
}

type appendIn struct {
	Path    string `json:"path" jsonschema:"file to add to; made when it does not exist"`
	Content string `json:"content" jsonschema:"text to add at the end, on a line of its own"`
}

type moveIn struct {
	Source      string `json:"source" jsonschema:"file or directory to move"`
	Destination string `json:"destination" jsonschema:"its new path, in full"`
	Overwrite   bool   `json:"overwrite,omitempty" jsonschema:"replace a file that is there"`
}

type deleteIn struct {
	Path      string `json:"path" jsonschema:"file or directory to delete"`
	Recursive bool   `json:"recursive,omitempty" jsonschema:"also a directory that is not empty"`
}

func (env Env) writeTools() []tool.Tool {
	spec := func(name, description, subject string) tool.Spec {
		return tool.Spec{Name: name, Description: description, EffectKind: tool.EffectFiles, Subject: subject}
	}
	return []tool.Tool{
		tool.Func(spec("write_file", "Write a file of the workspace, replacing what is there. Directories are made.", "path"), env.writeFile),
		tool.Func(spec("edit_file", "Replace text in a file of the workspace. Nothing is changed when the text is not found.", "path"), env.editFile),
		tool.Func(spec("append_file", "Add text to the end of a file of the workspace.", "path"), env.appendFile),
		tool.Func(spec("move_file", "Move or rename a file or directory of the workspace.", "source"), env.moveFile),
		tool.Func(spec("delete_file", "Delete a file or directory of the workspace.", "path"), env.deleteFile),
	}
}

func (env Env) writeFile(ctx context.Context, _ tool.Call, in writeIn) (tool.Result, error) {
	got, err := env.Files.Write(ctx, &fsv1.WriteRequest{Path: in.Path, Content: []byte(in.Content)})
	if err != nil {
		return tool.Result{}, err
	}
	verb := "Replaced"
	if got.GetCreated() {
		verb = "Created"
	}
	return written(fmt.Sprintf("%s %s (%d bytes).", verb, got.GetInfo().GetPath(), got.GetInfo().GetSizeBytes()), got.GetInfo(), got.GetCursor()), nil
}

func (env Env) editFile(ctx context.Context, _ tool.Call, in editIn) (tool.Result, error) {
	got, err := env.Files.Edit(ctx, &fsv1.EditRequest{Path: in.Path, Replacements: []*fsv1.Replacement{
		{OldText: in.OldString, NewText: in.NewString, ReplaceAll: in.ReplaceAll},
	}})
	if err != nil {
		return tool.Result{}, err
	}
	text := fmt.Sprintf("Edited %s: %d replaced.", got.GetInfo().GetPath(), got.GetReplaced()[0])
	if got.GetDiff() != "" {
		text += "\n" + got.GetDiff()
	}
	return written(text, got.GetInfo(), got.GetCursor()), nil
}

func (env Env) appendFile(ctx context.Context, _ tool.Call, in appendIn) (tool.Result, error) {
	content := in.Content
	if content != "" && content[len(content)-1] != '\n' {
		content += "\n"
	}
	got, err := env.Files.Append(ctx, &fsv1.AppendRequest{Path: in.Path, Content: []byte(content), EnsureNewline: true})
	if err != nil {
		return tool.Result{}, err
	}
	return written(fmt.Sprintf("Appended to %s, which has %d bytes now.", got.GetInfo().GetPath(), got.GetInfo().GetSizeBytes()), got.GetInfo(), got.GetCursor()), nil
}

func (env Env) moveFile(ctx context.Context, _ tool.Call, in moveIn) (tool.Result, error) {
	got, err := env.Files.Move(ctx, &fsv1.MoveRequest{FromPath: in.Source, ToPath: in.Destination, Overwrite: in.Overwrite})
	if err != nil {
		return tool.Result{}, err
	}
	return written(fmt.Sprintf("Moved %s to %s (%d files).", in.Source, got.GetInfo().GetPath(), got.GetFiles()), got.GetInfo(), got.GetCursor()), nil
}

func (env Env) deleteFile(ctx context.Context, _ tool.Call, in deleteIn) (tool.Result, error) {
	got, err := env.Files.Delete(ctx, &fsv1.DeleteRequest{Path: in.Path, Recursive: in.Recursive})
	if err != nil {
		return tool.Result{}, err
	}
	return tool.OK(fmt.Sprintf("Deleted %s (%d files).", in.Path, got.GetFiles())).With("cursor", got.GetCursor()), nil
}

func written(text string, info *fsv1.FileInfo, cursor string) tool.Result {
	return tool.OK(text).With("revision", info.GetRevision()).With("sha256", info.GetSha256()).With("cursor", cursor)
}
