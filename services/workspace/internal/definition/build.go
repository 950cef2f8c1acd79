package definition

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// builder gathers one definition.
type builder struct {
	view *files.View
	out  Definition
	sum  hash.Hash
	// total is the bytes of items so far.
	total int
	// texted is the bytes of the texts and settings.
	texted int
}

// fits says whether an item of so many bytes has room, and takes it.
func (b *builder) fits(bytes int) bool {
	if b.total+bytes > maxTotal {
		return false
	}
	b.total += bytes
	return true
}

// Build reads the definition that a view shows.
func Build(ctx context.Context, view *files.View) (Definition, error) {
	b := &builder{view: view}
	return b.build(ctx)
}

func (b *builder) build(ctx context.Context) (Definition, error) {
	b.sum = sha256.New()
	for _, step := range []func(context.Context) error{b.texts, b.knowledge, b.skills, b.subagents, b.tools, b.settings} {
		if err := step(ctx); err != nil {
			return Definition{}, err
		}
	}
	b.out.Fingerprint = hex.EncodeToString(b.sum.Sum(nil))
	return b.out, nil
}

// note makes a file, and what is in it, part of the fingerprint.
func (b *builder) note(e files.Entry, content []byte) files.Entry {
	sum := sha256.Sum256(content)
	if content != nil {
		e.SHA256 = hex.EncodeToString(sum[:])
	}
	fmt.Fprintf(b.sum, "%q %d %s %s\n", e.Path.String(), e.Layer, e.Revision, e.SHA256)
	return e
}

func (b *builder) problem(e files.Entry, f fault, leftOut bool) {
	const most = 200
	if len(b.out.Problems) < most {
		path, _ := fsops.Text(e.Path.String())
		b.out.Problems = append(b.out.Problems, Problem{
			Path: path, Layer: e.Layer, Reason: f.reason, Message: f.message, Line: f.line, Column: f.column, LeftOut: leftOut,
		})
	}
}

// read reads a file of a view. A file that is not there is no error: ok is false. One that can't be read is a problem.
func (b *builder) read(ctx context.Context, view *files.View, name string, limit int64) (e files.Entry, data []byte, ok bool, err error) {
	p := fsops.PathOf(name)
	e, data, err = view.ReadAll(ctx, p, limit)
	switch {
	case err == nil:
		return e, data, true, nil
	case ctx.Err() != nil:
		return e, nil, false, ctx.Err()
	case errors.Is(err, errdefs.ErrNotFound), errdefs.ReasonOf(err) == fsops.ReasonNotADirectory, errdefs.ReasonOf(err) == fsops.ReasonIsDirectory:
		return files.Entry{}, nil, false, nil
	case errors.Is(err, errdefs.ErrUnavailable):
		return e, nil, false, err
	}
	e.Path = p
	f := fault{reason: ReasonUnreadable, message: public(err)}
	if errdefs.ReasonOf(err) == fsops.ReasonTooLarge {
		f.reason = ReasonTooLarge
	}
	b.problem(e, f, true)
	return files.Entry{}, nil, false, nil
}

func public(err error) string {
	if known, ok := errors.AsType[*errdefs.Error](err); ok {
		return known.Public()
	}
	return "can't be read"
}

func (b *builder) text(ctx context.Context, name string) (Text, error) {
	e, data, ok, err := b.read(ctx, b.view, name, 16*maxText)
	if err != nil || !ok {
		return Text{}, err
	}
	out := Text{Entry: b.note(e, data)}
	out.Text, out.Truncated = cut(decode(data), maxText)
	b.texted += len(out.Text)
	if out.Truncated {
		b.problem(e, fault{reason: ReasonTooLarge, message: "only the first MiB is used"}, false)
	}
	return out, nil
}

func (b *builder) texts(ctx context.Context) (err error) {
	if b.out.Rules, err = b.text(ctx, "AGENTS.md"); err != nil {
		return err
	}
	b.out.Memory, err = b.text(ctx, "MEMORY.md")
	return err
}

// below lists the files below a directory, at most limit.
func (b *builder) below(ctx context.Context, dir string, limit int) (found []files.Entry, more bool, err error) {
	token := ""
	for {
		page, err := b.view.List(ctx, fsops.PathOf(dir), true, fsops.MaxPageSize, token)
		if errdefs.ReasonOf(err) == fsops.ReasonPathNotFound || errdefs.ReasonOf(err) == fsops.ReasonNotADirectory {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		for _, w := range page.Warnings {
			b.problem(files.Entry{Node: files.Node{Path: fsops.PathOf(dir)}}, fault{reason: ReasonUnreadable, message: w}, true)
		}
		for _, e := range page.Entries {
			if e.Kind != files.KindFile {
				continue
			}
			if len(found) == limit {
				return found, true, nil
			}
			found = append(found, e)
		}
		if token = page.Next; token == "" {
			return found, false, nil
		}
	}
}

func (b *builder) knowledge(ctx context.Context) (err error) {
	const main = "knowledge/KNOWLEDGE.md"
	if b.out.Knowledge, err = b.text(ctx, main); err != nil {
		return err
	}
	found, more, err := b.below(ctx, "knowledge", maxKnowledge+1)
	if err != nil {
		return err
	}
	for _, e := range found {
		if e.Path.Key() != main && len(b.out.KnowledgeFiles) < maxKnowledge {
			if !b.fits(len(e.Path.String())) {
				more = true
				break
			}
			b.out.KnowledgeFiles = append(b.out.KnowledgeFiles, b.note(e, nil))
		}
	}
	b.out.KnowledgeCut = more
	return nil
}

func (b *builder) skills(ctx context.Context) error {
	found, more, err := b.below(ctx, "skills", 100*maxSkills)
	if err != nil {
		return err
	}
	others := map[string][]string{}
	var mains []files.Entry
	for _, e := range found {
		parts := strings.SplitN(e.Path.String(), "/", 3)
		if len(parts) < 3 || strings.HasPrefix(parts[1], "_") || strings.HasPrefix(parts[1], ".") {
			continue
		}
		if parts[2] == "SKILL.md" {
			mains = append(mains, e)
		} else if len(others[parts[1]]) < maxSkillFile && b.fits(len(parts[2])) {
			name, _ := fsops.Text(parts[2])
			others[parts[1]] = append(others[parts[1]], name)
		}
	}
	if more || len(mains) > maxSkills {
		b.problem(files.Entry{Node: files.Node{Path: fsops.PathOf("skills")}}, fault{reason: ReasonTooMany, message: fmt.Sprintf("at most %d skills are used", maxSkills)}, true)
		mains = mains[:min(len(mains), maxSkills)]
	}
	for _, e := range mains {
		id := e.Path.Parent().Name()
		item, ok, err := b.item(ctx, e, id)
		if err != nil {
			return err
		}
		if ok {
			b.out.Skills = append(b.out.Skills, Skill{
				Name: id, Description: item.description, Entry: item.entry, FrontMatter: item.fields, Body: item.body, Files: others[id],
			})
		}
	}
	return nil
}

func (b *builder) subagents(ctx context.Context) error {
	found, _, err := b.below(ctx, "subagents", 10*maxSubagents)
	if err != nil {
		return err
	}
	for _, e := range found {
		id, md := strings.CutSuffix(e.Path.Name(), ".md")
		if !md || id == "" || strings.HasPrefix(id, ".") || e.Path.Parent().Key() != "subagents" {
			continue
		}
		if len(b.out.Subagents) == maxSubagents {
			b.problem(e, fault{reason: ReasonTooMany, message: fmt.Sprintf("at most %d subagents are used", maxSubagents)}, true)
			break
		}
		item, ok, err := b.item(ctx, e, id)
		if err != nil {
			return err
		}
		if ok {
			b.out.Subagents = append(b.out.Subagents, Subagent{ID: id, Description: item.description, Entry: item.entry, FrontMatter: item.fields, Body: item.body})
		}
	}
	return nil
}

// item is a Markdown file with front matter.
type item struct {
	entry       files.Entry
	description string
	fields      map[string]any
	body        string
}

// item reads a skill or a subagent. One that can't be used is a problem, and ok is false.
func (b *builder) item(ctx context.Context, e files.Entry, id string) (out item, ok bool, err error) {
	e, data, ok, err := b.read(ctx, b.view, e.Path.String(), maxItemFile)
	if err != nil || !ok {
		return item{}, false, err
	}
	out.entry = b.note(e, data)
	if !b.fits(len(data)) {
		b.problem(e, fault{reason: ReasonTooMany, message: "all skills and subagents together hold more than 8 MiB"}, true)
		return item{}, false, nil
	}
	if fsops.IsBinary(data) {
		b.problem(e, fault{reason: ReasonUnreadable, message: "the file is binary"}, true)
		return item{}, false, nil
	}
	var soft, bad *fault
	if out.fields, out.body, soft, bad = frontMatter(decode(data)); bad != nil {
		b.problem(e, *bad, true)
		return item{}, false, nil
	}
	if soft != nil {
		b.problem(e, *soft, false)
	}
	description, _ := out.fields["description"].(string)
	if out.description = strings.TrimSpace(description); out.description == "" {
		b.problem(e, fault{reason: ReasonDescription, message: "the front matter has no description, or it is blank or not text", line: 1}, true)
		return item{}, false, nil
	}
	if name, stated := out.fields["name"].(string); stated && name != id {
		b.problem(e, fault{reason: ReasonNameDiffers, message: fmt.Sprintf("name is %q, yet %q, from the path, is the one that counts", name, id)}, false)
	}
	var truncated bool
	if out.body, truncated = cut(out.body, maxBody); truncated {
		b.problem(e, fault{reason: ReasonTooLarge, message: "only the first 256 KiB are used"}, false)
	}
	return out, true, nil
}

// tools reads the tools.json of each layer by itself: a bucket's copy, or its whiteout, must not lift what lower layers forbid.
func (b *builder) tools(ctx context.Context) error {
	layers := []files.Layer{files.LayerBucket}
	for _, l := range b.view.Lower() {
		layers = append(layers, l.Layer)
	}
	for _, layer := range layers {
		before := len(b.out.Problems)
		e, data, ok, err := b.read(ctx, b.view.Only(layer), "tools.json", maxItemFile)
		if err != nil {
			return err
		}
		if !ok && len(b.out.Problems) > before {
			// It is there and can't be read: that fails closed too.
			b.out.Problems[before].Layer = layer
			b.out.Tools = append(b.out.Tools, ToolsLayer{Entry: files.Entry{Node: files.Node{Path: fsops.PathOf("tools.json")}, Layer: layer}})
		}
		if !ok {
			continue
		}
		b.texted += len(data)
		config, bad := object(data, ReasonTools)
		if bad != nil {
			b.problem(e, *bad, true)
		}
		b.out.Tools = append(b.out.Tools, ToolsLayer{Entry: b.note(e, data), Config: config})
	}
	return nil
}

func (b *builder) settings(ctx context.Context) error {
	const name = "agent.yaml"
	if own, err := b.view.Only(files.LayerBucket).Stat(ctx, fsops.PathOf(name)); err == nil && len(b.view.Lower()) > 0 {
		b.problem(own, fault{reason: ReasonIgnoredThere, message: "the settings of an agent come from its template"}, true)
	}
	e, data, ok, err := b.read(ctx, b.view.Only(files.LayerTemplate), name, maxItemFile)
	if err != nil || !ok {
		return err
	}
	b.texted += len(data)
	b.out.AgentConfigEntry = b.note(e, data)
	fields, bad := mapping([]byte(decode(data)), ReasonAgentConfig, 0)
	if bad != nil {
		b.problem(e, *bad, true)
		return nil
	}
	b.out.AgentConfig = fields
	return nil
}
