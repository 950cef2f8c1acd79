package tools

import (
	"context"
	"fmt"
	"path"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

type loadSkillIn struct {
	Skill string `json:"skill" jsonschema:"name of the skill, as listed in available_skills"`
	Path  string `json:"path,omitempty" jsonschema:"file within the skill; SKILL.md when left out"`
}

func (env Env) skillTools() []tool.Tool {
	if len(env.Definition.Skills) == 0 {
		return nil
	}
	return []tool.Tool{tool.Func(tool.Spec{
		Name: "load_skill_through_path", EffectKind: tool.EffectNone, ReadOnly: true, ConcurrencySafe: true,
		Description: "Load the instructions of a skill, or another file of it, before doing what the skill is about.",
	}, env.loadSkill)}
}

// loadSkill reads within the skills of this call only: the list is the boundary.
func (env Env) loadSkill(ctx context.Context, _ tool.Call, in loadSkillIn) (tool.Result, error) {
	skill, ok := env.Definition.Skill(in.Skill)
	if !ok {
		return tool.Failed("SKILL_NOT_FOUND", fmt.Sprintf("There is no skill %q. There are: %s.", in.Skill, env.skillNames())), nil
	}
	dir, file := path.Dir(skill.Path), "SKILL.md"
	if in.Path != "" {
		file = path.Clean("/" + in.Path)[1:]
	}
	got, err := env.Files.Read(ctx, &fsv1.ReadRequest{Path: path.Join(dir, file)})
	if err != nil {
		r := tool.FromError(err)
		r.Text = fmt.Sprintf("%s can't be read in skill %s. It has: SKILL.md %s.", file, skill.Name, strings.Join(skill.Files, " "))
		return r, nil
	}
	text := got.GetText()
	if got.GetMore() {
		text += fmt.Sprintf("\n[more follows: read_file %s with offset=%d]", path.Join(dir, file), got.GetNextOffsetLines())
	}
	return tool.OK(text), nil
}

func (env Env) skillNames() string {
	var names []string
	for _, s := range env.Definition.Skills {
		names = append(names, s.Name)
	}
	return strings.Join(names, ", ")
}
