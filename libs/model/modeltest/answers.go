package modeltest

import (
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"regexp"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func (s suite) identity(t testkit.T) {
	p := s.New(t)
	if !regexp.MustCompile(`^[a-z0-9-]+$`).MatchString(p.Name()) {
		t.Errorf("Name() = %q, want lower case letters, digits and dashes: it is a prefix of references", p.Name())
	}
}

func (s suite) models(t testkit.T) {
	p := s.New(t)
	list, err := p.List(s.context(t))
	if err != nil {
		t.Fatalf("List: %v", err)
	}
	if !sort.SliceIsSorted(list, func(i, j int) bool { return list[i].Name < list[j].Name }) {
		t.Errorf("List is not sorted by name: %v", list)
	}
	listed := false
	for _, m := range list {
		listed = listed || m.Name == s.Model
	}
	if !listed {
		t.Errorf("List lacks %q: %v", s.Model, list)
	}
	info, err := p.Info(s.context(t), s.Model)
	if err != nil {
		t.Fatalf("Info: %v", err)
	}
	if info.Name != s.Model || info.ContextTokens != s.Window {
		t.Errorf("Info = %+v, want name %q and a window of %d", info, s.Model, s.Window)
	}
	if s.UnknownModel != "" {
		_, err := p.Info(s.context(t), s.UnknownModel)
		s.wantKind(t, err, model.KindUnknownModel)
	}
}

func (s suite) text(t testkit.T) {
	events := s.events(t, s.Text)
	text, pieces, finishes := "", 0, 0
	for i, ev := range events {
		switch ev.Type {
		case model.EventText:
			pieces++
			text += ev.Text
		case model.EventFinish:
			finishes++
			if i != len(events)-1 {
				t.Errorf("the finish is event %d of %d, want the last", i+1, len(events))
			}
			if ev.Finish != model.FinishStop {
				t.Errorf("finish = %q, want %q", ev.Finish, model.FinishStop)
			}
		}
	}
	if finishes != 1 {
		t.Errorf("%d finish events, want exactly one", finishes)
	}
	if pieces < 2 {
		t.Errorf("the text came in %d pieces: it is not streamed", pieces)
	}
	if !strings.Contains(text, s.Answer) {
		t.Errorf("answer = %q, want %q in it", text, s.Answer)
	}
}

// events reads a whole answer and checks that its end is an end.
func (s suite) events(t testkit.T, say string) []model.Event {
	t.Helper()
	stream, err := s.New(t).Generate(s.context(t), s.request(say))
	if err != nil {
		t.Fatalf("Generate: %v", err)
	}
	defer stream.Close()
	var events []model.Event
	for {
		ev, err := stream.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the answer broke off after %d events: %v", len(events), err)
		}
		events = append(events, ev)
	}
	if _, err := stream.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("Next after the end = %v, want io.EOF again", err)
	}
	if err := stream.Close(); err != nil {
		t.Errorf("Close after the end: %v", err)
	}
	return events
}

func (s suite) unicode(t testkit.T) {
	text := ""
	for _, ev := range s.events(t, s.Unicode) {
		if ev.Type == model.EventText && !utf8.ValidString(ev.Text) {
			t.Errorf("a piece is no whole characters: %q", ev.Text)
		}
		text += ev.Text
	}
	if !strings.Contains(text, s.UnicodeAnswer) {
		t.Errorf("answer = %q, want %q in it", text, s.UnicodeAnswer)
	}
}

func (s suite) usage(t testkit.T) {
	r := s.ask(t, s.New(t), s.request(s.Text))
	if s.NoUsage {
		if r.Usage != (model.Usage{}) {
			t.Errorf("usage = %+v although the profile says that there is none", r.Usage)
		}
		return
	}
	if r.Usage.InputTokens <= 0 || r.Usage.OutputTokens <= 0 {
		t.Errorf("usage = %+v, want both counts", r.Usage)
	}
}

func (s suite) tools(t testkit.T) {
	if s.Tool == nil {
		t.Skip("the profile has no tools")
	}
	p := s.New(t)
	req := s.request(s.Tool.Say)
	req.Tools = []model.ToolSpec{s.Tool.Spec}
	r := s.ask(t, p, req)
	calls := r.Message.ToolCalls()
	if len(calls) != 1 || calls[0].Name != s.Tool.Spec.Name || calls[0].ID == "" {
		t.Fatalf("calls = %+v, want one of %s with an id", calls, s.Tool.Spec.Name)
	}
	if !sameJSON(t, string(calls[0].Arguments), s.Tool.Arguments) {
		t.Errorf("arguments = %s, want %s", calls[0].Arguments, s.Tool.Arguments)
	}
	if r.Finish != model.FinishToolCalls {
		t.Errorf("finish = %q, want %q", r.Finish, model.FinishToolCalls)
	}
	req.Messages = append(req.Messages, r.Message, model.ToolResults(model.Result(calls[0].ID, calls[0].Name, s.Tool.Result, false)))
	r = s.ask(t, p, req)
	if !strings.Contains(r.Message.Text(), s.Tool.Answer) || len(r.Message.ToolCalls()) > 0 {
		t.Errorf("after the result: %q with %d calls, want %q and none", r.Message.Text(), len(r.Message.ToolCalls()), s.Tool.Answer)
	}
	if r.Finish != model.FinishStop {
		t.Errorf("finish after the result = %q, want %q", r.Finish, model.FinishStop)
	}
}

func (s suite) toolChoiceNone(t testkit.T) {
	if s.Tool == nil {
		t.Skip("the profile has no tools")
	}
	req := s.request(s.Tool.Say)
	req.Tools, req.ToolChoice = []model.ToolSpec{s.Tool.Spec}, model.ToolChoiceNone
	if r := s.ask(t, s.New(t), req); len(r.Message.ToolCalls()) > 0 {
		t.Errorf("tools were called although none may be: %+v", r.Message.ToolCalls())
	}
}

func (s suite) schema(t testkit.T) {
	p := s.New(t)
	if s.Schema == "" {
		req := s.request(s.Text)
		req.ResponseSchema = json.RawMessage(`{"type":"object"}`)
		_, err := s.fail(t, p, req)
		s.wantKind(t, err, model.KindUnsupported)
		return
	}
	req := s.request(s.Schema)
	req.ResponseSchema = s.ResponseSchema
	if r := s.ask(t, p, req); !json.Valid([]byte(r.Message.Text())) {
		t.Errorf("answer = %q, want JSON", r.Message.Text())
	}
}

// badRequests must be refused before anything is sent, whoever the provider is.
func (s suite) badRequests(t testkit.T) {
	call := model.Call("c1", "f", nil)
	result := model.Result("c1", "f", "x", false)
	tests := map[string]func(*model.Request){
		"no messages":         func(r *model.Request) { r.Messages = nil },
		"ends with the model": func(r *model.Request) { r.Messages = append(r.Messages, model.Assistant(model.Text("x"))) },
		"call without result": func(r *model.Request) { r.Messages = append(r.Messages, model.Assistant(call), model.User("x")) },
		"result without call": func(r *model.Request) { r.Messages = append(r.Messages, model.ToolResults(result)) },
		"two results": func(r *model.Request) {
			r.Messages = append(r.Messages, model.Assistant(call), model.ToolResults(result, result))
		},
		"tool name":        func(r *model.Request) { r.Tools = []model.ToolSpec{{Name: "not a name"}} },
		"tool schema":      func(r *model.Request) { r.Tools = []model.ToolSpec{{Name: "f", Schema: json.RawMessage(`{`)}} },
		"call by the user": func(r *model.Request) { r.Messages[0].Blocks = []model.Block{call} },
		"negative limit":   func(r *model.Request) { r.MaxTokens = -1 },
		"image of nothing": func(r *model.Request) {
			r.Messages[0].Blocks = []model.Block{{Type: model.BlockImage, Image: &model.Image{}}}
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t testkit.T) {
			req := s.request(s.Text)
			spoil(&req)
			_, err := s.fail(t, s.New(t), req)
			s.wantKind(t, err, model.KindBadRequest)
		})
	}
}

func (s suite) requestIsKept(t testkit.T) {
	req := s.request(s.Text)
	if s.Tool != nil {
		req.Tools = []model.ToolSpec{s.Tool.Spec}
		req.ToolChoice = model.ToolChoiceNone
	}
	before, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	s.ask(t, s.New(t), req)
	if after, err := json.Marshal(req); err != nil || string(after) != string(before) {
		t.Errorf("the request was changed (%v):\n%s\n%s", err, before, after)
	}
}

func sameJSON(t testkit.T, a, b string) bool {
	var x, y any
	if err := json.Unmarshal([]byte(a), &x); err != nil {
		t.Errorf("%s: %v", a, err)
		return false
	}
	if err := json.Unmarshal([]byte(b), &y); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return reflect.DeepEqual(x, y)
}
