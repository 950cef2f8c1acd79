package rpc

import (
	"context"
	"slices"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/run"
)

type skillServer struct {
	orchestratorv1.UnimplementedSkillServiceServer
	*Server
}

func (s *skillServer) ListSkills(ctx context.Context, req *orchestratorv1.ListSkillsRequest) (*orchestratorv1.ListSkillsResponse, error) {
	d, err := s.Loader.Load(seen(ctx))
	if err != nil {
		return nil, err
	}
	var all []*orchestratorv1.Skill
	for _, skill := range d.Skills {
		all = append(all, skillOf(skill))
	}
	if req.GetAll() {
		for _, p := range d.Problems {
			if name, ok := rejected(p.GetPath()); ok {
				all = append(all, &orchestratorv1.Skill{Name: name, State: orchestratorv1.SkillState_SKILL_STATE_REJECTED, Problem: p.GetProblem()})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *orchestratorv1.Skill) int { return strings.Compare(a.GetName(), b.GetName()) })
	list, next, err := page(all, "skills", req.GetPageSize(), req.GetPageToken())
	return &orchestratorv1.ListSkillsResponse{Skills: list, NextPageToken: next}, err
}

// seen makes sure that there is a bucket to see the agent through.
func seen(ctx context.Context) context.Context {
	id, _ := identity.FromContext(ctx)
	return forAgent(ctx, id.Agent)
}

func rejected(path string) (name string, ok bool) {
	parts := strings.Split(path, "/")
	if len(parts) < 2 || parts[0] != "skills" {
		return "", false
	}
	return parts[1], true
}

func skillOf(s definition.Skill) *orchestratorv1.Skill {
	return &orchestratorv1.Skill{
		Name: s.Name, Description: s.Description, Layer: strings.ToLower(strings.TrimPrefix(s.Layer, "LAYER_")), State: orchestratorv1.SkillState_SKILL_STATE_ACTIVE, Files: s.Files, Revision: s.Revision,
	}
}

func (s *skillServer) GetSkill(ctx context.Context, req *orchestratorv1.GetSkillRequest) (*orchestratorv1.GetSkillResponse, error) {
	ctx = seen(ctx)
	d, err := s.Loader.Load(ctx)
	if err != nil {
		return nil, err
	}
	skill, ok := d.Skill(req.GetName())
	if !ok {
		return nil, errdefs.New(errdefs.ErrNotFound, run.Domain, "SKILL_NOT_FOUND", "there is no skill %q", req.GetName()).With("skill", req.GetName())
	}
	out := skillOf(skill)
	file, err := s.Files.Read(ctx, &fsv1.ReadRequest{Path: skill.Path})
	if err != nil {
		return nil, err
	}
	out.Text = file.GetText()
	return &orchestratorv1.GetSkillResponse{Skill: out}, nil
}

func (s *skillServer) ProposeSkill(context.Context, *orchestratorv1.ProposeSkillRequest) (*orchestratorv1.ProposeSkillResponse, error) {
	return nil, missing("skill.propose")
}

func (s *skillServer) ReviewSkill(context.Context, *orchestratorv1.ReviewSkillRequest) (*orchestratorv1.ReviewSkillResponse, error) {
	return nil, missing("skill.review")
}

func (s *skillServer) UpdateSkillState(context.Context, *orchestratorv1.UpdateSkillStateRequest) (*orchestratorv1.UpdateSkillStateResponse, error) {
	return nil, missing("skill.state")
}

func (s *skillServer) CurateSkills(context.Context, *orchestratorv1.CurateSkillsRequest) (*orchestratorv1.CurateSkillsResponse, error) {
	return nil, missing("skill.curate")
}

func sortTools(tools []*orchestratorv1.ToolInfo) {
	slices.SortStableFunc(tools, func(a, b *orchestratorv1.ToolInfo) int { return strings.Compare(a.GetName(), b.GetName()) })
}
