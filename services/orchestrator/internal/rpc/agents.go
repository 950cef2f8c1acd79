package rpc

import (
	"context"
	"errors"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/policy"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

type agentServer struct {
	orchestratorv1.UnimplementedAgentServiceServer
	*Server
}

// maxTemplateBytes bounds the files of one definition.
const maxTemplateBytes = 8 << 20

func (s *agentServer) PutAgent(ctx context.Context, req *orchestratorv1.PutAgentRequest) (*orchestratorv1.PutAgentResponse, error) {
	if err := identity.ValidateID("id", req.GetId()); err != nil {
		return nil, err
	}
	files, err := templateFiles(req.GetSpec())
	if err != nil {
		return nil, err
	}
	put := &workspacev1.PutAgentTemplateRequest{Agent: req.GetId(), Files: files, Overwrite: req.GetIfRevision() != "0"}
	if r := req.GetIfRevision(); r != "0" {
		put.IfFingerprint = r
	}
	ctx = forAgent(ctx, req.GetId())
	if _, err := s.Workspace.PutAgentTemplate(ctx, put); err != nil {
		if errors.Is(err, errdefs.ErrAlreadyExists) {
			return nil, errdefs.New(errdefs.ErrAborted, run.Domain, "SPEC_INVALID", "there is an agent %q already", req.GetId()).With("field", "if_revision")
		}
		return nil, err
	}
	agent, err := s.describe(ctx, req.GetId())
	return &orchestratorv1.PutAgentResponse{Agent: agent}, err
}

// templateFiles turns a definition into the files of a template. The workspace stays the source of truth, so nothing is kept anywhere else.
func templateFiles(spec *orchestratorv1.AgentSpec) ([]*workspacev1.TemplateFile, error) {
	if spec.GetFilesystemMode() != 0 && spec.GetFilesystemAddress() != "" {
		return nil, invalid("filesystem_address", "filesystem_mode and filesystem_address exclude each other")
	}
	if _, err := policy.ParseRules(spec.GetPolicyRules()); err != nil {
		return nil, err
	}
	if _, problems := definition.ParseServers(spec.GetMcpServers()); len(problems) > 0 {
		return nil, invalid("mcp_servers", "%s", problems[0])
	}
	var files []*workspacev1.TemplateFile
	size := len(spec.GetInstructions())
	for path, content := range spec.GetFiles() {
		if path == "AGENTS.md" || path == "agent.yaml" {
			return nil, invalid("files", "%s is made from the other fields", path)
		}
		size += len(content)
		files = append(files, &workspacev1.TemplateFile{Path: path, Content: content})
	}
	if size > maxTemplateBytes {
		return nil, invalid("files", "the files have %d bytes together, at most %d are allowed", size, maxTemplateBytes)
	}
	if spec.GetInstructions() != "" {
		files = append(files, &workspacev1.TemplateFile{Path: "AGENTS.md", Content: []byte(spec.GetInstructions())})
	}
	rest := proto.CloneOf(spec)
	rest.Instructions, rest.Files = "", nil
	config, err := protojson.MarshalOptions{UseProtoNames: true, Multiline: true}.Marshal(rest) // JSON is YAML
	if err != nil {
		return nil, err
	}
	return append(files, &workspacev1.TemplateFile{Path: "agent.yaml", Content: append(config, '\n')}), nil
}

// forAgent makes the call one about another agent than the one it names. Whoever has no bucket there sees the template through an empty one.
func forAgent(ctx context.Context, agent string) context.Context {
	id, _ := identity.FromContext(ctx)
	id.Agent = agent
	if _, err := id.Bucket(); err != nil {
		id.Session = run.NewSession()
	}
	return identity.NewContext(ctx, id)
}

func (s *agentServer) describe(ctx context.Context, agent string) (*orchestratorv1.Agent, error) {
	d, err := s.Loader.Load(ctx)
	problems := []*orchestratorv1.DefinitionProblem{}
	if errdefs.ReasonOf(err) == "DEFINITION_INVALID" { // an agent with a bad file is shown with what is wrong
		var e *errdefs.Error
		errors.As(err, &e)
		d = &definition.Definition{Agent: agent, Spec: &orchestratorv1.AgentSpec{}}
		problems = append(problems, &orchestratorv1.DefinitionProblem{Path: e.Meta["path"], Problem: e.Meta["problem"], Fatal: true})
	} else if err != nil {
		return nil, err
	}
	out := &orchestratorv1.Agent{Id: agent, Spec: proto.CloneOf(d.Spec), Description: d.Spec.GetDescription(), Problems: append(problems, d.Problems...), Origin: "local"}
	out.Spec.Instructions = d.Instructions.Text
	for _, skill := range d.Skills {
		out.Skills = append(out.Skills, skill.Name)
	}
	for _, sub := range d.Subagents {
		out.Subagents = append(out.Subagents, sub.ID)
	}
	info, err := s.Workspace.GetAgentTemplate(ctx, &workspacev1.GetAgentTemplateRequest{Agent: agent, NamesOnly: true})
	switch {
	case err == nil:
		out.Revision = info.GetInfo().GetFingerprint()
		if info.GetInfo().GetKind() == workspacev1.TemplateKind_TEMPLATE_KIND_STORED {
			out.Origin = "stored"
		}
	case !errors.Is(err, errdefs.ErrNotFound):
		return nil, err
	}
	return out, nil
}

func (s *agentServer) GetAgent(ctx context.Context, req *orchestratorv1.GetAgentRequest) (*orchestratorv1.GetAgentResponse, error) {
	agent, err := s.describe(forAgent(ctx, req.GetId()), req.GetId())
	return &orchestratorv1.GetAgentResponse{Agent: agent}, err
}

func (s *agentServer) ListAgents(ctx context.Context, req *orchestratorv1.ListAgentsRequest) (*orchestratorv1.ListAgentsResponse, error) {
	size := req.GetPageSize()
	if size == 0 {
		size = defaultPage
	}
	resp, err := s.Workspace.ListAgents(ctx, &workspacev1.ListAgentsRequest{PageSize: size, PageToken: req.GetPageToken()})
	if err != nil {
		return nil, err
	}
	out := &orchestratorv1.ListAgentsResponse{NextPageToken: resp.GetNextPageToken()}
	for _, a := range resp.GetAgents() {
		origin := "local"
		if a.GetKind() == workspacev1.TemplateKind_TEMPLATE_KIND_STORED {
			origin = "stored"
		}
		out.Agents = append(out.Agents, &orchestratorv1.Agent{Id: a.GetAgent(), Origin: origin, Revision: a.GetFingerprint()})
	}
	return out, nil
}

func (s *agentServer) DeleteAgent(ctx context.Context, req *orchestratorv1.DeleteAgentRequest) (*orchestratorv1.DeleteAgentResponse, error) {
	_, err := s.Workspace.DeleteAgentTemplate(forAgent(ctx, req.GetId()), &workspacev1.DeleteAgentTemplateRequest{Agent: req.GetId()})
	if errors.Is(err, errdefs.ErrNotFound) {
		return &orchestratorv1.DeleteAgentResponse{}, nil
	}
	return &orchestratorv1.DeleteAgentResponse{Deleted: err == nil}, err
}

func (s *agentServer) ListTools(ctx context.Context, req *orchestratorv1.ListToolsRequest) (*orchestratorv1.ListToolsResponse, error) {
	ctx = forAgent(ctx, req.GetId())
	id, _ := identity.FromContext(ctx)
	if id.Session == "" {
		id.Session = run.NewSession()
		ctx = identity.NewContext(ctx, id)
	}
	bucket, err := identity.BucketFromContext(ctx)
	if err != nil {
		return nil, err
	}
	k, err := s.Kits.Build(ctx, run.Facts{Identity: id, Bucket: bucket})
	if err != nil {
		return nil, err
	}
	out := &orchestratorv1.ListToolsResponse{UnknownEntries: k.Unknown()}
	for _, t := range k.Specs() {
		out.Tools = append(out.Tools, &orchestratorv1.ToolInfo{
			Name: t.Name, Description: t.Description, SchemaJson: string(t.Schema), Enabled: true, EffectKind: string(t.EffectKind),
		})
	}
	for _, r := range k.Removed() {
		out.Tools = append(out.Tools, &orchestratorv1.ToolInfo{
			Name: r.Spec.Name, Description: r.Spec.Description, SchemaJson: string(r.Spec.Schema), RemovedBy: r.By, EffectKind: string(r.Spec.EffectKind),
		})
	}
	sortTools(out.Tools)
	return out, nil
}

func (s *agentServer) ListModels(ctx context.Context, _ *orchestratorv1.ListModelsRequest) (*orchestratorv1.ListModelsResponse, error) {
	out := &orchestratorv1.ListModelsResponse{}
	for _, m := range s.Models.List(ctx) {
		out.Models = append(out.Models, &orchestratorv1.ModelInfo{
			Name: m.Ref, ContextTokens: int32(m.Info.ContextTokens), Tools: m.Info.Capabilities.Tools, IsDefault: m.Default, Note: m.Note,
		})
	}
	return out, nil
}
