package inmemory

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// Workspace implements as much of WorkspaceService as runs need, and by [Workspace.Files] of FilesystemService, with effect records.
type Workspace struct {
	workspacev1.UnimplementedWorkspaceServiceServer

	mu sync.Mutex
	// templates by tenant and agent; buckets hold files.
	templates map[[2]string]map[string][]byte
	buckets   map[identity.Bucket]map[string][]byte
	effects   map[identity.Bucket]map[string]effectRecord
	// writes counts writes that changed something, by path.
	writes  map[string]int
	written map[identity.Bucket]map[string]int
	onWrite func(context.Context, string)
}

type effectRecord struct {
	hash string
	resp proto.Message
}

// NewWorkspace makes an empty workspace.
func NewWorkspace() *Workspace {
	return &Workspace{
		templates: map[[2]string]map[string][]byte{}, buckets: map[identity.Bucket]map[string][]byte{}, effects: map[identity.Bucket]map[string]effectRecord{}, writes: map[string]int{}, written: map[identity.Bucket]map[string]int{},
	}
}

// Template sets the files of an agent's template.
func (w *Workspace) Template(tenant, agent string, files map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := map[string][]byte{}
	for path, text := range files {
		t[path] = []byte(text)
	}
	w.templates[[2]string{tenant, agent}] = t
}

// File returns a file of a bucket.
func (w *Workspace) File(b identity.Bucket, path string) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, ok := w.buckets[b][path]
	return string(text), ok
}

// Writes is how often a path was written, repeats under one effect id not counted.
func (w *Workspace) Writes(path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.writes[path]
}

// WritesIn is [Workspace.Writes] of one bucket.
func (w *Workspace) WritesIn(b identity.Bucket, path string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written[b][path]
}

func (w *Workspace) GetDefinition(ctx context.Context, req *workspacev1.GetDefinitionRequest) (*workspacev1.GetDefinitionResponse, error) {
	bucket, err := identity.BucketFromContext(ctx)
	if err != nil {
		return nil, err
	}
	id, _ := identity.FromContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	template, has := w.templates[[2]string{id.Tenant, id.Agent}]
	d := &workspacev1.Definition{Agent: id.Agent, HasTemplate: has}
	layers := map[string][]byte{}
	for _, layer := range []map[string][]byte{template, w.buckets[bucket]} {
		for path, content := range layer {
			layers[path] = content
		}
	}
	for _, path := range sortedKeys(layers) {
		w.define(d, path, layers[path])
	}
	d.Fingerprint = hashOf(d)
	if req.GetIfChangedFrom() == d.Fingerprint {
		return &workspacev1.GetDefinitionResponse{Unchanged: true}, nil
	}
	return &workspacev1.GetDefinitionResponse{Definition: d}, nil
}

func (w *Workspace) define(d *workspacev1.Definition, path string, content []byte) {
	source := &workspacev1.Source{Path: path, Layer: fsv1.Layer_LAYER_TEMPLATE, Revision: hashOf(&fsv1.WriteRequest{Content: content})[:8]}
	item := &workspacev1.TextItem{Source: source, Text: string(content)}
	switch {
	case path == "AGENTS.md":
		d.Rules = item
	case path == "MEMORY.md":
		d.Memory = item
	case path == "tools.json" || path == "agent.yaml":
		config := &structpb.Struct{}
		if err := config.UnmarshalJSON(content); err != nil {
			d.Problems = append(d.Problems, &workspacev1.Problem{Path: path, Message: err.Error(), Line: 1, LeftOut: true})
		} else if path == "tools.json" {
			d.Tools = append(d.Tools, &workspacev1.ToolsLayer{Source: source, Config: config})
		} else {
			d.AgentConfig, d.AgentConfigSource = config, source
		}
	case strings.HasPrefix(path, "skills/") && strings.HasSuffix(path, "/SKILL.md"):
		name := strings.Split(path, "/")[1]
		d.Skills = append(d.Skills, &workspacev1.Skill{Name: name, Description: "skill " + name, Source: source, Body: string(content)})
	case strings.HasPrefix(path, "subagents/") && strings.HasSuffix(path, ".md"):
		head, body, _ := strings.Cut(string(content), "\n---\n") // the front matter is JSON here
		front := &structpb.Struct{}
		_ = front.UnmarshalJSON([]byte(head))
		id := strings.TrimSuffix(strings.TrimPrefix(path, "subagents/"), ".md")
		d.Subagents = append(d.Subagents, &workspacev1.Subagent{
			Id: id, Description: front.GetFields()["description"].GetStringValue(), Source: source, FrontMatter: front, Body: body,
		})
	}
}

func (w *Workspace) ListAgents(ctx context.Context, _ *workspacev1.ListAgentsRequest) (*workspacev1.ListAgentsResponse, error) {
	id, _ := identity.FromContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	resp := &workspacev1.ListAgentsResponse{}
	for key, files := range w.templates {
		if key[0] == id.Tenant {
			resp.Agents = append(resp.Agents, info(key[1], files))
		}
	}
	slices.SortFunc(resp.Agents, func(a, b *workspacev1.AgentInfo) int { return strings.Compare(a.GetAgent(), b.GetAgent()) })
	return resp, nil
}

func info(agent string, files map[string][]byte) *workspacev1.AgentInfo {
	raw, _ := json.Marshal(files)
	return &workspacev1.AgentInfo{Agent: agent, Kind: workspacev1.TemplateKind_TEMPLATE_KIND_STORED, Fingerprint: hashOf(&fsv1.WriteRequest{Content: raw})[:16]}
}

func (w *Workspace) GetAgentTemplate(ctx context.Context, req *workspacev1.GetAgentTemplateRequest) (*workspacev1.GetAgentTemplateResponse, error) {
	id, _ := identity.FromContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	files, ok := w.templates[[2]string{id.Tenant, req.GetAgent()}]
	if !ok {
		return nil, noAgent(req.GetAgent())
	}
	resp := &workspacev1.GetAgentTemplateResponse{Info: info(req.GetAgent(), files)}
	for _, path := range sortedKeys(files) {
		resp.Files = append(resp.Files, &workspacev1.TemplateFile{Path: path, Content: files[path]})
	}
	return resp, nil
}

func noAgent(agent string) error {
	return errdefs.New(errdefs.ErrNotFound, "gantry.workspace.v1", "AGENT_NOT_FOUND", "no such agent").With("agent", agent)
}

func (w *Workspace) PutAgentTemplate(ctx context.Context, req *workspacev1.PutAgentTemplateRequest) (*workspacev1.PutAgentTemplateResponse, error) {
	id, _ := identity.FromContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]string{id.Tenant, req.GetAgent()}
	old, exists := w.templates[key]
	if exists && !req.GetOverwrite() {
		return nil, errdefs.New(errdefs.ErrAlreadyExists, "gantry.workspace.v1", "AGENT_EXISTS", "the agent has a template")
	}
	if want := req.GetIfFingerprint(); want != "" && (!exists || info("", old).GetFingerprint() != want) {
		return nil, errdefs.New(errdefs.ErrAborted, "gantry.workspace.v1", "FINGERPRINT_CONFLICT", "the template has changed")
	}
	files := map[string][]byte{}
	for _, f := range req.GetFiles() {
		files[f.GetPath()] = f.GetContent()
	}
	w.templates[key] = files
	return &workspacev1.PutAgentTemplateResponse{Info: info(req.GetAgent(), files), Created: !exists}, nil
}

func (w *Workspace) DeleteAgentTemplate(ctx context.Context, req *workspacev1.DeleteAgentTemplateRequest) (*workspacev1.DeleteAgentTemplateResponse, error) {
	id, _ := identity.FromContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	key := [2]string{id.Tenant, req.GetAgent()}
	files, ok := w.templates[key]
	if !ok {
		return nil, noAgent(req.GetAgent())
	}
	delete(w.templates, key)
	return &workspacev1.DeleteAgentTemplateResponse{Files: int64(len(files))}, nil
}

// Files implements FilesystemService over a workspace.
type Files struct {
	fsv1.UnimplementedFilesystemServiceServer
	w *Workspace
}

// Files gives the files of the workspace.
func (w *Workspace) Files() *Files { return &Files{w: w} }

func (f *Files) Write(ctx context.Context, req *fsv1.WriteRequest) (*fsv1.WriteResponse, error) {
	w := f.w
	bucket, err := identity.BucketFromContext(ctx)
	if err != nil {
		return nil, err
	}
	id, _ := identity.FromContext(ctx)
	w.hook(ctx, strings.TrimPrefix(req.GetPath(), "/"))
	w.mu.Lock()
	defer w.mu.Unlock()
	if id.Effect != "" {
		if rec, ok := w.effects[bucket][id.Effect]; ok {
			if rec.hash != hashOf(req) {
				return nil, errdefs.New(errdefs.ErrAborted, errdefs.DomainCommon, "EFFECT_MISMATCH", "another request was recorded under this effect id")
			}
			return rec.resp.(*fsv1.WriteResponse), nil
		}
	}
	path := strings.TrimPrefix(req.GetPath(), "/")
	if w.buckets[bucket] == nil {
		w.buckets[bucket], w.effects[bucket] = map[string][]byte{}, map[string]effectRecord{}
	}
	_, existed := w.buckets[bucket][path]
	w.buckets[bucket][path] = req.GetContent()
	w.writes[path]++
	if w.written[bucket] == nil {
		w.written[bucket] = map[string]int{}
	}
	w.written[bucket][path]++
	resp := &fsv1.WriteResponse{Info: &fsv1.FileInfo{Path: path, SizeBytes: int64(len(req.GetContent())), Revision: hashOf(req)[:8]}, Created: !existed}
	if id.Effect != "" {
		w.effects[bucket][id.Effect] = effectRecord{hashOf(req), resp}
	}
	return resp, nil
}

func (f *Files) Read(ctx context.Context, req *fsv1.ReadRequest) (*fsv1.ReadResponse, error) {
	w := f.w
	bucket, err := identity.BucketFromContext(ctx)
	if err != nil {
		return nil, err
	}
	id, _ := identity.FromContext(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	path := strings.TrimPrefix(req.GetPath(), "/")
	for _, layer := range []map[string][]byte{w.buckets[bucket], w.templates[[2]string{id.Tenant, id.Agent}]} {
		if content, ok := layer[path]; ok {
			lines := int64(strings.Count(string(content), "\n") + 1)
			return &fsv1.ReadResponse{Text: string(content), Info: &fsv1.FileInfo{Path: path, SizeBytes: int64(len(content))}, StartLine: 1, LineCount: lines, TotalLines: lines}, nil
		}
	}
	return nil, errdefs.New(errdefs.ErrNotFound, "gantry.filesystem.v1", "NOT_FOUND", "no such file").With("path", path)
}

func sortedKeys(m map[string][]byte) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// OnWrite sets what happens before a write takes effect: tests hold writes up, or count them. Nil: nothing.
func (w *Workspace) OnWrite(hook func(ctx context.Context, path string)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.onWrite = hook
}

func (w *Workspace) hook(ctx context.Context, path string) {
	w.mu.Lock()
	hook := w.onWrite
	w.mu.Unlock()
	if hook != nil {
		hook(ctx, path)
	}
}
