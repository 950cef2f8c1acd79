package loop

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
)

// Format is the version of what [Thread.Snapshot] writes. It changes with the form, and also when a fold of an old journal would give another state than it
// did before: a snapshot stands for that fold.
const Format = 1

// Snapshot writes the projection with all that it remembers: a SHA-256 and then JSON, in which messages are in their binary form. Equal projections give
// equal bytes.
func (t *Thread) Snapshot() ([]byte, error) {
	body, err := json.Marshal(threadForm{
		Schema: Schema, Seq: t.Seq, Conversation: entryForms(t.Conversation), Held: entryForms(t.held), Run: formOfRun(t.Run), Latest: formOfRun(t.Latest),
		Known: t.known, Calls: slices.Sorted(maps.Keys(t.callIDs)), Todos: packAll(t.Todos), Planning: t.Planning, PlanPath: t.PlanPath,
		Mode: t.Mode, Rules: t.Rules, Tasks: taskForms(t.Tasks),
	})
	if err != nil {
		return nil, fmt.Errorf("snapshot of a thread: %w", err)
	}
	sum := sha256.Sum256(body)
	return append(sum[:], body...), nil
}

// Restore reads what [Thread.Snapshot] wrote. It fails for another format, for damage, and for a snapshot of events of a newer schema.
func Restore(format uint32, data []byte) (*Thread, error) {
	if format != Format {
		return nil, fmt.Errorf("snapshot of a thread: format %d is not known", format)
	}
	if len(data) < sha256.Size {
		return nil, fmt.Errorf("snapshot of a thread: %d bytes are too few", len(data))
	}
	sum, body := data[:sha256.Size], data[sha256.Size:]
	if got := sha256.Sum256(body); !bytes.Equal(got[:], sum) {
		return nil, fmt.Errorf("snapshot of a thread: it is damaged")
	}
	var f threadForm
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("snapshot of a thread: %w", err)
	}
	if f.Schema > Schema {
		return nil, fmt.Errorf("snapshot of a thread: it is of events of schema %d", f.Schema)
	}
	return f.thread()
}

type threadForm struct {
	Schema       uint32                       `json:"schema"`
	Seq          int64                        `json:"seq"`
	Conversation []entryForm                  `json:"conversation"`
	Held         []entryForm                  `json:"held,omitempty"`
	Run          *runForm                     `json:"run,omitempty"`
	Latest       *runForm                     `json:"latest,omitempty"`
	Known        []string                     `json:"known,omitempty"`
	Calls        []uint64                     `json:"calls,omitempty"`
	Todos        []packed[*threadv1.TodoItem] `json:"todos,omitempty"`
	Planning     bool                         `json:"planning,omitempty"`
	PlanPath     string                       `json:"plan_path,omitempty"`
	Mode         string                       `json:"mode,omitempty"`
	Rules        []string                     `json:"rules,omitempty"`
	Tasks        []taskForm                   `json:"tasks,omitempty"`
}

func (f *threadForm) thread() (*Thread, error) {
	t := &Thread{
		Seq: f.Seq, Conversation: entries(f.Conversation), held: entries(f.Held), known: f.Known, Todos: unpackAll(f.Todos), Planning: f.Planning,
		PlanPath: f.PlanPath, Mode: f.Mode, Rules: f.Rules,
	}
	for _, key := range f.Calls {
		if t.callIDs == nil {
			t.callIDs = make(map[uint64]bool, len(f.Calls))
		}
		t.callIDs[key] = true
	}
	for _, task := range f.Tasks {
		t.Tasks = append(t.Tasks, Task{Started: task.Started.of, RunID: task.Run, Ended: task.Ended})
	}
	var err error
	if t.Run, err = f.Run.run(); err != nil {
		return nil, err
	}
	t.Latest, err = f.Latest.run()
	return t, err
}

type entryForm struct {
	Message packed[*threadv1.Message] `json:"message"`
	Seq     int64                     `json:"seq"`
	Run     string                    `json:"run,omitempty"`
}

func entryForms(all []Entry) []entryForm {
	var out []entryForm
	for _, e := range all {
		out = append(out, entryForm{pack(e.Message), e.Seq, e.RunID})
	}
	return out
}

func entries(all []entryForm) []Entry {
	var out []Entry
	for _, e := range all {
		out = append(out, Entry{e.Message.of, e.Seq, e.Run})
	}
	return out
}

type taskForm struct {
	Started packed[*threadv1.TaskStarted] `json:"started"`
	Run     string                        `json:"run,omitempty"`
	Ended   bool                          `json:"ended,omitempty"`
}

func taskForms(all []Task) []taskForm {
	var out []taskForm
	for _, t := range all {
		out = append(out, taskForm{pack(t.Started), t.RunID, t.Ended})
	}
	return out
}

// packed is a message in its binary form. Nil is null.
type packed[M proto.Message] struct{ of M }

func pack[M proto.Message](m M) packed[M] { return packed[M]{m} }

func packAll[M proto.Message](all []M) []packed[M] {
	var out []packed[M]
	for _, m := range all {
		out = append(out, pack(m))
	}
	return out
}

func unpackAll[M proto.Message](all []packed[M]) []M {
	var out []M
	for _, p := range all {
		out = append(out, p.of)
	}
	return out
}

// MarshalJSON implements [json.Marshaler].
func (p packed[M]) MarshalJSON() ([]byte, error) {
	if !p.of.ProtoReflect().IsValid() {
		return []byte("null"), nil
	}
	raw, err := proto.MarshalOptions{Deterministic: true}.Marshal(p.of)
	if err != nil {
		return nil, err
	}
	if raw == nil {
		raw = []byte{}
	}
	return json.Marshal(raw)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *packed[M]) UnmarshalJSON(data []byte) error {
	var raw []byte
	if err := json.Unmarshal(data, &raw); err != nil || raw == nil {
		return err
	}
	m := p.of.ProtoReflect().New().Interface().(M)
	if err := proto.Unmarshal(raw, m); err != nil {
		return err
	}
	p.of = m
	return nil
}

// moment keeps a time that is not set apart from every other.
func moment(t time.Time) packed[*timestamppb.Timestamp] {
	if t.IsZero() {
		return pack[*timestamppb.Timestamp](nil)
	}
	return pack(timestamppb.New(t))
}

func timeOf(p packed[*timestamppb.Timestamp]) time.Time {
	if p.of == nil {
		return time.Time{}
	}
	return p.of.AsTime()
}
