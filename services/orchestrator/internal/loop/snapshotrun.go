package loop

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// runForm is a run in a snapshot. The settings are read from Started again.
type runForm struct {
	ID          string                            `json:"id"`
	Turn        string                            `json:"turn"`
	Started     packed[*threadv1.RunStarted]      `json:"started"`
	StartTime   packed[*timestamppb.Timestamp]    `json:"start_time"`
	EndTime     packed[*timestamppb.Timestamp]    `json:"end_time"`
	FirstSeq    int64                             `json:"first_seq"`
	LastSeq     int64                             `json:"last_seq"`
	State       threadv1.RunState                 `json:"state"`
	Step        int                               `json:"step"`
	Model       *ModelCall                        `json:"model,omitempty"`
	Calls       []callForm                        `json:"calls,omitempty"`
	CallMessage string                            `json:"call_message,omitempty"`
	Answered    bool                              `json:"answered,omitempty"`
	Blank       bool                              `json:"blank,omitempty"`
	Blanks      int                               `json:"blanks,omitempty"`
	Finish      string                            `json:"finish,omitempty"`
	Text        string                            `json:"text,omitempty"`
	Usage       packed[*threadv1.Usage]           `json:"usage"`
	Children    int                               `json:"children,omitempty"`
	Cancel      packed[*threadv1.CancelRequested] `json:"cancel"`
	Interrupted bool                              `json:"interrupted,omitempty"`
	Stop        bool                              `json:"stop,omitempty"`
	Ended       packed[*threadv1.RunEnded]        `json:"ended"`
	Failures    map[string]failureForm            `json:"failures,omitempty"`
	Stuck       string                            `json:"stuck,omitempty"`
}

type failureForm struct {
	Outcome string `json:"outcome"`
	Count   int    `json:"count"`
	Step    int    `json:"step"`
}

type callForm struct {
	Call        packed[*threadv1.ToolCall]            `json:"call"`
	Ordinal     int32                                 `json:"ordinal"`
	RequestSeq  int64                                 `json:"request_seq"`
	Decision    string                                `json:"decision,omitempty"`
	Rule        string                                `json:"rule,omitempty"`
	Arguments   string                                `json:"arguments"`
	Dispatched  packed[*threadv1.ToolDispatched]      `json:"dispatched"`
	Dispatches  int                                   `json:"dispatches,omitempty"`
	Interaction packed[*threadv1.Interaction]         `json:"interaction"`
	Resolution  packed[*threadv1.InteractionResolved] `json:"resolution"`
	Result      packed[*threadv1.ToolResult]          `json:"result"`
}

func formOfRun(r *Run) *runForm {
	if r == nil {
		return nil
	}
	f := &runForm{
		ID: r.ID, Turn: r.TurnID, Started: pack(r.Started), StartTime: moment(r.StartTime), EndTime: moment(r.EndTime), FirstSeq: r.FirstSeq, LastSeq: r.LastSeq,
		State: r.State, Step: r.Step, Model: r.Model, CallMessage: r.CallMessage, Answered: r.Answered, Blank: r.Blank, Blanks: r.Blanks, Finish: r.Finish, Text: r.Text,
		Usage: pack(r.Usage), Children: r.Children, Cancel: pack(r.Cancel), Interrupted: r.Interrupted, Stop: r.Stop, Ended: pack(r.Ended), Stuck: r.stuck,
	}
	for _, c := range r.Calls {
		f.Calls = append(f.Calls, callForm{
			Call: pack(c.Call), Ordinal: c.Ordinal, RequestSeq: c.RequestSeq, Decision: c.Decision, Rule: c.Rule, Arguments: c.Arguments, Dispatched: pack(c.Dispatched),
			Dispatches: c.Dispatches, Interaction: pack(c.Interaction), Resolution: pack(c.Resolution), Result: pack(c.Result),
		})
	}
	for key, failed := range r.failures {
		if f.Failures == nil {
			f.Failures = make(map[string]failureForm, len(r.failures))
		}
		f.Failures[key] = failureForm{failed.outcome, failed.count, failed.step}
	}
	return f
}

func (f *runForm) run() (*Run, error) {
	if f == nil {
		return nil, nil
	}
	settings, err := ParseSettings(f.Started.of.GetSettings())
	if err != nil {
		return nil, err
	}
	r := &Run{
		ID: f.ID, TurnID: f.Turn, Started: f.Started.of, Settings: settings, StartTime: timeOf(f.StartTime), EndTime: timeOf(f.EndTime), FirstSeq: f.FirstSeq, LastSeq: f.LastSeq,
		State: f.State, Step: f.Step, Model: f.Model, CallMessage: f.CallMessage, Answered: f.Answered, Blank: f.Blank, Blanks: f.Blanks, Finish: f.Finish, Text: f.Text,
		Usage: f.Usage.of, Children: f.Children, Cancel: f.Cancel.of, Interrupted: f.Interrupted, Stop: f.Stop, Ended: f.Ended.of, stuck: f.Stuck,
	}
	if r.Usage == nil {
		r.Usage = &threadv1.Usage{}
	}
	for _, c := range f.Calls {
		r.Calls = append(r.Calls, &Call{
			Call: c.Call.of, Ordinal: c.Ordinal, RequestSeq: c.RequestSeq, Decision: c.Decision, Rule: c.Rule, Arguments: c.Arguments, Dispatched: c.Dispatched.of,
			Dispatches: c.Dispatches, Interaction: c.Interaction.of, Resolution: c.Resolution.of, Result: c.Result.of,
		})
	}
	for key, failed := range f.Failures {
		if r.failures == nil {
			r.failures = make(map[string]failure, len(f.Failures))
		}
		r.failures[key] = failure{failed.Outcome, failed.Count, failed.Step}
	}
	return r, nil
}
