package run

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// reasonOutput is the reason of a run whose answer is not the object that was asked for.
const reasonOutput = "output_invalid"

// structure reads the structured output from the final text.
func (a *actor) structure(ended *threadv1.RunEnded) {
	text := strings.TrimSpace(ended.GetText())
	if body, ok := strings.CutPrefix(text, "```"); ok { // models like to fence what they were asked to give bare
		if _, rest, found := strings.Cut(body, "\n"); found {
			text = strings.TrimSuffix(strings.TrimSpace(rest), "```")
		}
	}
	out := &structpb.Struct{}
	if json.Valid([]byte(text)) && out.UnmarshalJSON([]byte(text)) == nil {
		if missing := a.missing(out); missing == "" {
			ended.Output = out
			return
		} else {
			ended.Message = "the answer lacks the field " + missing
		}
	} else {
		ended.Message = "the answer is not a JSON object"
	}
	ended.State, ended.Reason = threadv1.RunState_RUN_STATE_FAILED, reasonOutput
}

// missing names a required field of the schema that the output lacks.
func (a *actor) missing(out *structpb.Struct) string {
	for _, v := range a.call.GetOutputSchema().GetFields()["required"].GetListValue().GetValues() {
		if _, ok := out.GetFields()[v.GetStringValue()]; !ok {
			return v.GetStringValue()
		}
	}
	return ""
}
