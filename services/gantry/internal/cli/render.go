package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// maxShown bounds what is shown of an argument or a result in one line.
const maxShown = 100

// Renderer shows a run's stream to a person: what the agent does, one line a thing, and its text as it comes.
type Renderer struct {
	w io.Writer
	// shown counts the bytes of each message whose text was shown as it came; the journaled message then adds only the rest.
	message string
	shown   int64
	open    bool // the cursor is not at the start of a line
}

// NewRenderer makes a renderer that writes to w.
func NewRenderer(w io.Writer) *Renderer { return &Renderer{w: w} }

// Event shows one message of the stream.
func (r *Renderer) Event(e *orchestratorv1.RunEvent) {
	switch item := e.GetItem().(type) {
	case *orchestratorv1.RunEvent_Delta:
		r.delta(item.Delta)
	case *orchestratorv1.RunEvent_Event:
		r.journaled(item.Event, "")
	case *orchestratorv1.RunEvent_Terminal:
		r.terminal(item.Terminal)
	}
}

func (r *Renderer) delta(d *orchestratorv1.TextDelta) {
	if d.GetThinking() || d.GetSource() != "" {
		return
	}
	key := fmt.Sprintf("%s/%d", d.GetMessageId(), d.GetAttempt())
	if key != r.message {
		r.newline()
		r.message, r.shown = key, 0
	}
	if d.GetOffsetBytes() != r.shown {
		return // a gap or a repeat: the journaled message has the whole text
	}
	r.text(d.GetText())
	r.shown += int64(len(d.GetText()))
}

func (r *Renderer) journaled(e *threadv1.Event, source string) {
	switch p := e.GetPayload().GetKind().(type) {
	case *threadv1.EventPayload_ModelEnded:
		r.modelEnded(p.ModelEnded, source)
	case *threadv1.EventPayload_ModelRetried:
		r.line("! %sthe model failed (%s); trying again", source, p.ModelRetried.GetReason())
	case *threadv1.EventPayload_ToolDispatched:
		r.line("> %s%s %s", source, p.ToolDispatched.GetName(), arguments(p.ToolDispatched.GetArgumentsJson()))
	case *threadv1.EventPayload_ToolEnded:
		res := p.ToolEnded.GetResult()
		r.line("< %s%s %s: %s", source, res.GetName(), statusWord(res), oneLine(res.GetText(), maxShown))
	case *threadv1.EventPayload_InteractionRequested:
		i := p.InteractionRequested.GetInteraction()
		r.line("? %s%s %s: %s", source, i.GetKind(), i.GetId(), oneLine(i.GetPrompt(), 4*maxShown))
	case *threadv1.EventPayload_TaskStarted:
		r.line("+ %stask %s: agent %s %s", source, p.TaskStarted.GetTaskId(), p.TaskStarted.GetAgent(), p.TaskStarted.GetLabel())
	case *threadv1.EventPayload_TaskDelivered:
		r.line("+ %stask %s: %s", source, p.TaskDelivered.GetTaskId(), strings.ToLower(p.TaskDelivered.GetState()))
	case *threadv1.EventPayload_SubagentEvent:
		r.journaled(p.SubagentEvent.GetEvent(), source+"["+p.SubagentEvent.GetSource()+"] ")
	case *threadv1.EventPayload_NoticeShown:
		r.line("! %s%s", source, p.NoticeShown.GetText())
	case *threadv1.EventPayload_RecoveryTakenOver:
		r.line("! %sanother replica goes on with this run", source)
	case *threadv1.EventPayload_CancelRequested:
		r.line("! %scancel requested", source)
	}
}

func (r *Renderer) modelEnded(m *threadv1.ModelEnded, source string) {
	var text strings.Builder
	for _, b := range m.GetMessage().GetBlocks() {
		text.WriteString(b.GetText())
	}
	full := text.String()
	if source != "" {
		if full != "" {
			r.line("  %s%s", source, oneLine(full, maxShown))
		}
		return
	}
	if key := fmt.Sprintf("%s/%d", m.GetMessage().GetId(), m.GetAttempt()); key != r.message {
		r.newline()
		r.message, r.shown = key, 0
	}
	if r.shown < int64(len(full)) {
		r.text(full[r.shown:])
		r.shown = int64(len(full))
	}
	r.newline()
}

func (r *Renderer) terminal(t *orchestratorv1.RunTerminal) {
	run := t.GetRun()
	line := fmt.Sprintf("= %s: %d steps, %d tokens in, %d out", t.GetOutcome(), run.GetSteps(), run.GetUsage().GetInputTokens(), run.GetUsage().GetOutputTokens())
	if t.GetOutcome() != "completed" {
		line += fmt.Sprintf(" (%s) %s", run.GetReason(), run.GetMessage())
	}
	r.line("%s", strings.TrimSpace(line))
}

func (r *Renderer) line(format string, args ...any) {
	r.newline()
	fmt.Fprintln(r.w, Printable(fmt.Sprintf(format, args...)))
}

func (r *Renderer) text(s string) {
	if s == "" {
		return
	}
	fmt.Fprint(r.w, Printable(s))
	r.open = !strings.HasSuffix(s, "\n")
}

func (r *Renderer) newline() {
	if r.open {
		fmt.Fprintln(r.w)
		r.open = false
	}
}

func statusWord(res *threadv1.ToolResult) string {
	word := strings.ToLower(strings.TrimPrefix(res.GetStatus().String(), "TOOL_STATUS_"))
	if res.GetReason() != "" {
		word += " " + res.GetReason()
	}
	return word
}

// arguments shows JSON arguments as name=value, short.
func arguments(text string) string {
	var args map[string]any
	if json.Unmarshal([]byte(text), &args) != nil {
		return oneLine(text, maxShown)
	}
	var parts []string
	for k, v := range args {
		s, ok := v.(string)
		if !ok {
			raw, err := json.Marshal(v)
			if err != nil {
				continue
			}
			s = string(raw)
		}
		parts = append(parts, k+"="+oneLine(s, maxShown/2))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func oneLine(s string, most int) string {
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return s
}
