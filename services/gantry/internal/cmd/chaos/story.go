package main

import (
	"fmt"
	"io"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// maxStory bounds the events that are printed of one thread.
const maxStory = 120

// story prints what happened in a thread, for those who look for the reason of a finding.
func story(w io.Writer, events []*threadv1.Event) {
	for i, ev := range events {
		if i == maxStory {
			fmt.Fprintf(w, "    … %d more\n", len(events)-i)
			return
		}
		p := ev.GetPayload()
		detail := ""
		switch {
		case p.GetToolDispatched() != nil:
			detail = fmt.Sprintf("%s %s %s", p.GetToolDispatched().GetName(), p.GetToolDispatched().GetArgumentsJson(), p.GetToolDispatched().GetEffect())
		case p.GetToolEnded() != nil:
			r := p.GetToolEnded().GetResult()
			detail = fmt.Sprintf("%s %v %s %.200q", r.GetName(), r.GetStatus(), r.GetReason(), r.GetText())
		case p.GetModelEnded() != nil:
			detail = fmt.Sprintf("%s %s", p.GetModelEnded().GetFinishReason(), p.GetModelEnded().GetMessage().GetId())
		case p.GetRunEnded() != nil:
			detail = fmt.Sprintf("%v %s %s", p.GetRunEnded().GetState(), p.GetRunEnded().GetReason(), p.GetRunEnded().GetMessage())
		case p.GetRecoveryTakenOver() != nil:
			detail = fmt.Sprintf("from %s to %s", p.GetRecoveryTakenOver().GetFromOwner(), p.GetRecoveryTakenOver().GetToOwner())
		case p.GetModelRetried() != nil:
			detail = p.GetModelRetried().GetReason()
		}
		fmt.Fprintf(w, "    %3d %s %-24s %s %s\n", ev.GetSeq(), ev.GetTime().AsTime().Format("15:04:05.000"), ev.GetType(), ev.GetRunId(), detail)
	}
}
