package offline

import (
	"context"
	"fmt"
	"hash/fnv"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/gantry-agents/gantry/libs/model"
)

// Model is the one name of the rules; the empty name means it as well.
const Model = "rules"

// Provider carries out plain instructions by rules. The zero value is ready; it holds no state.
type Provider struct{}

var _ model.Provider = Provider{}

// New returns the provider.
func New() Provider { return Provider{} }

// Name is "offline".
func (Provider) Name() string { return model.OfflineName }

// Generate answers a turn: with the next tool calls, or with the report when all are done. Token counts are estimates of
// four bytes a token.
func (p Provider) Generate(ctx context.Context, req model.Request) (model.Stream, error) {
	if err := p.known(req.Model); err != nil {
		return nil, err
	}
	if err := req.Validate(); err != nil {
		return nil, err
	}
	if len(req.ResponseSchema) > 0 {
		return nil, model.NewError(model.KindUnsupported, p.Name(), Model, "the offline rules cannot answer in a given schema: that takes a language model")
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	r := answer(req)
	r.Usage = model.Usage{InputTokens: inputSize(req) / 4, OutputTokens: outputSize(r.Message)/4 + 1}
	return model.StreamOf(ctx, model.EventsOf(r, pieceSize)...), nil
}

// pieceSize is the size of one event of text, in bytes: small enough to be seen to stream.
const pieceSize = 48

// Embed is not offered: numbers without meaning would be worse than none.
func (p Provider) Embed(context.Context, model.EmbedRequest) (model.EmbedResponse, error) {
	return model.EmbedResponse{}, model.NewError(model.KindUnsupported, p.Name(), Model, "the offline rules make no embeddings")
}

// Info describes the rules.
func (p Provider) Info(_ context.Context, name string) (model.Info, error) {
	if err := p.known(name); err != nil {
		return model.Info{}, err
	}
	return model.Info{Name: Model, Capabilities: model.Capabilities{Chat: true, Tools: true}}, nil
}

// List names the rules.
func (p Provider) List(ctx context.Context) ([]model.Info, error) {
	info, err := p.Info(ctx, Model)
	return []model.Info{info}, err
}

func (p Provider) known(name string) error {
	if name == "" || name == Model {
		return nil
	}
	return model.NewError(model.KindUnknownModel, p.Name(), name, "the offline provider has no model %q, only the rules", name)
}

// turn is what the conversation says about the work at hand.
type turn struct {
	instructions []string
	results      []model.ToolResult
	seed         string
}

// answer is the whole of the provider: a function of the request.
func answer(req model.Request) model.Response {
	t := readTurn(req.Messages)
	x := &execution{tools: readTools(req.Tools), names: readNames(req), context: readEvidence(req.Messages), results: t.results}
	if req.ToolChoice == model.ToolChoiceNone {
		x.tools = toolset{}
	}
	for _, instruction := range t.instructions {
		x.perform(parse(instruction, x.names))
	}
	if !x.stopped {
		return model.Response{Message: model.Assistant(model.Text(x.compose())), Finish: model.FinishStop}
	}
	blocks := make([]model.Block, len(x.pending))
	for i, c := range x.pending {
		blocks[i] = model.Call(fmt.Sprintf("offline_%s_%d", t.seed, x.taken+i), c.name, c.args)
	}
	return model.Response{Message: model.Assistant(blocks...), Finish: model.FinishToolCalls}
}

// readTurn finds the instructions that are not answered yet and the results of the calls made for them.
//
// A turn begins after the last answer that called no tools. A word of the user in the middle of it adds an instruction,
// unless the work before it was interrupted: then it begins anew.
func readTurn(messages []model.Message) turn {
	var t turn
	ordinals := map[string]int{}
	h := fnv.New32a()
	for _, m := range messages {
		switch m.Role {
		case model.RoleUser:
			if !isInstruction(m) {
				continue
			}
			if interrupted(t.results) {
				t = turn{}
			}
			t.instructions = append(t.instructions, m.Text())
			h.Write([]byte(m.Text()))
			if len(t.instructions) == 1 {
				t.seed = fmt.Sprintf("%08x", h.Sum32())
			}
		case model.RoleAssistant:
			calls := m.ToolCalls()
			if len(calls) == 0 {
				t = turn{}
				continue
			}
			for i, c := range calls {
				ordinals[c.ID] = ordinal(c.ID, len(t.results)+i)
			}
		case model.RoleTool:
			for _, b := range m.Blocks {
				t.results = place(t.results, ordinals[b.ToolResult.CallID], *b.ToolResult)
			}
		}
	}
	return t
}

var ownID = regexp.MustCompile(`^offline_[0-9a-f]{8}_(\d{1,4})$`)

// ordinal is the place of a call in its turn. It is in the id, so that it is right even when a compaction has dropped
// earlier calls; without one of our ids, calls are counted.
func ordinal(id string, counted int) int {
	m := ownID.FindStringSubmatch(id)
	if m == nil {
		return counted
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return counted
	}
	return n
}

func place(results []model.ToolResult, at int, r model.ToolResult) []model.ToolResult {
	for len(results) <= at {
		results = append(results, model.ToolResult{Content: "(this result is no longer in the conversation)"})
	}
	results[at] = r
	return results
}

func interrupted(results []model.ToolResult) bool {
	if len(results) == 0 {
		return false
	}
	last := results[len(results)-1]
	return last.IsError && strings.Contains(strings.ToLower(last.Content), "interrupted")
}

var synthetic = regexp.MustCompile(`^\s*(?:<([A-Za-z][\w-]*)[\s>]|\[?#{0,3} ?[A-Z_]*(?:HARNESS_CONTEXT|RUNTIME_STATE))`)

// isInstruction says whether a user message was written by the user. Its origin says so; a message that lost its origin on
// the way is known by the tag that encloses it.
func isInstruction(m model.Message) bool {
	switch m.Origin {
	case model.OriginSteer:
		return true
	case "":
		text := strings.TrimSpace(m.Text())
		g := synthetic.FindStringSubmatch(text)
		return g == nil || g[1] != "" && !strings.HasSuffix(text, "</"+g[1]+">")
	}
	return false
}

var (
	blockRE = map[string]*regexp.Regexp{
		"agents": regexp.MustCompile(`(?s)<available_subagents>(.*?)</available_subagents>`),
		"skills": regexp.MustCompile(`(?s)<available_skills>(.*?)</available_skills>`),
	}
	nameRE = regexp.MustCompile("(?m)^\\s*[-*]\\s+[*`\"]*([\\p{L}\\p{N}_.-]+)|(?:id|name)=\"([^\"]+)\"|<(?:id|name)>\\s*([^<]+?)\\s*</|(?m:^\\s*(?:id|name):\\s*[\"'`]?([\\p{L}\\p{N}_.-]+))")
)

// readNames lists what exists: tools, the values that schemas allow for agents, and the lists in the system text.
func readNames(req model.Request) names {
	n := names{agents: map[string]string{}, tools: map[string]string{}, skills: map[string]string{}}
	for _, t := range req.Tools {
		n.tools[fold(t.Name)] = t.Name
	}
	if t, ok := readTools(req.Tools).find(spawnTool...); ok {
		if name, ok := t.property([]string{"agent_id", "agent", "name"}); ok {
			for _, e := range t.props[name].Enum {
				if s, ok := e.(string); ok {
					n.agents[fold(s)] = s
				}
			}
		}
	}
	for kind, into := range map[string]map[string]string{"agents": n.agents, "skills": n.skills} {
		for _, block := range blockRE[kind].FindAllStringSubmatch(req.System, -1) {
			for _, m := range nameRE.FindAllStringSubmatch(block[1], -1) {
				if name := m[1] + m[2] + m[3] + m[4]; name != "" {
					into[fold(name)] = name
				}
			}
		}
	}
	return n
}

func inputSize(req model.Request) int {
	n := len(req.System)
	for _, m := range req.Messages {
		n += outputSize(m)
		for _, b := range m.Blocks {
			if b.ToolResult != nil {
				n += len(b.ToolResult.Content)
			}
		}
	}
	for _, t := range req.Tools {
		n += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return n
}

func outputSize(m model.Message) int {
	n := 0
	for _, b := range m.Blocks {
		n += len(b.Text)
		if b.ToolCall != nil {
			n += len(b.ToolCall.Name) + len(b.ToolCall.Arguments)
		}
	}
	return n
}

const maxQuote = 1500 // characters of one result that the report repeats

// compose writes the answer of a turn.
func (x *execution) compose() string {
	var direct, report []string
	failed := 0
	for _, n := range x.notes {
		if n.answer {
			direct = append(direct, n.text)
			continue
		}
		if n.failed {
			failed++
		}
		report = append(report, "- "+n.text+quote(n.quote))
	}
	var b strings.Builder
	if len(direct) > 0 {
		b.WriteString(strings.Join(direct, "\n") + "\n\n")
	}
	switch {
	case len(report) > 0:
		b.WriteString("No language model is configured; fixed rules carried out your words:\n" + strings.Join(report, "\n") + "\n")
		if x.report || failed > 0 {
			fmt.Fprintf(&b, "\nIn short: %s", count(len(report)-failed, "step")+" done")
			if failed > 0 {
				fmt.Fprintf(&b, ", %d not", failed)
			}
			b.WriteString(".\n")
		}
	case len(direct) > 0:
		b.WriteString("(No language model is configured; fixed rules found this answer.)\n")
	default:
		b.WriteString(x.help())
	}
	if failed > 0 && failed == len(report) && len(direct) == 0 {
		b.WriteString("\n" + x.help())
	}
	return strings.TrimSpace(b.String())
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// help says what works without a model, as far as the offered tools go.
func (x *execution) help() string {
	var can []string
	for _, c := range []struct {
		tools []string
		say   string
	}{
		{readTool, "read FILE"}, {writeTool, "write 'TEXT' to FILE"}, {editTool, "replace 'A' with 'B' in FILE"}, {listTool, "list the files in DIR"},
		{grepTool, "search the files for 'WORD'"}, {runTool, "run `COMMAND`"}, {saveTool, "remember that …"}, {searchTool, "what do you know about …?"},
		{spawnTool, "ask the NAME subagent to …"},
	} {
		if x.offers(c.tools) {
			can = append(can, c.say)
		}
	}
	if len(can) == 0 {
		return "No language model is configured, and no tools are offered here, so I can do nothing with this. Configure a model to get an answer."
	}
	return "No language model is configured. Fixed rules understand plain instructions, for example: " + strings.Join(can, "; ") + ". Configure a model for anything else."
}

// quote indents what a tool gave under the line that speaks of it.
func quote(s string) string {
	s = strings.TrimRight(s, "\n ")
	if s == "" {
		return ""
	}
	if n := utf8.RuneCountInString(s); n > maxQuote {
		s = string([]rune(s)[:maxQuote]) + fmt.Sprintf("… (%d more characters)", n-maxQuote)
	}
	return "\n  > " + strings.ReplaceAll(s, "\n", "\n  > ")
}
