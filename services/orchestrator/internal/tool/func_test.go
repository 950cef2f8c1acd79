package tool

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

type greetIn struct {
	Name  string `json:"name" jsonschema:"whom to greet"`
	Times int    `json:"times,omitempty" jsonschema:"how often"`
}

var greet = Func(Spec{Name: "greet"}, func(_ context.Context, _ Call, in greetIn) (Result, error) {
	switch in.Name {
	case "panic":
		panic("secret")
	case "typed":
		return Result{}, errdefs.New(errdefs.ErrNotFound, "x", "NOT_THERE", "there is no %s", in.Name).With("path", "p")
	case "untyped":
		return Result{}, errors.New("dial 10.0.0.7: secret")
	}
	return OK("hello " + in.Name), nil
})

func TestFuncChecksArgumentsBeforeItCalls(t *testing.T) {
	tests := []struct{ name, args, status, text string }{
		{"right", `{"name":"ana"}`, "", "hello ana"},
		{"explicit null is not given", `{"name":"ana","times":null}`, "", "hello ana"},
		{"missing", `{}`, "ARGUMENTS_INVALID", "name"},
		{"nothing at all", ``, "ARGUMENTS_INVALID", "name"},
		{"wrong type", `{"name":7}`, "ARGUMENTS_INVALID", "name"},
		{"unknown argument", `{"name":"a","nmae":"b"}`, "ARGUMENTS_INVALID", "nmae"},
		{"no JSON", `{"name":"a"`, "ARGUMENTS_INVALID", "JSON"},
		{"no object", `["a"]`, "ARGUMENTS_INVALID", "JSON object"},
		{"two objects", `{"name":"a"}{"name":"b"}`, "ARGUMENTS_INVALID", "follows"},
		{"typed error keeps its reason", `{"name":"typed"}`, "NOT_THERE", "there is no typed"},
		{"untyped error keeps its text to itself", `{"name":"untyped"}`, "INTERNAL", "failed inside"},
		{"a panic is a result", `{"name":"panic"}`, "TOOL_PANICKED", "broke"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := greet.Run(t.Context(), Call{Name: "greet", Arguments: json.RawMessage(tt.args)})
			if got.Reason != tt.status || !strings.Contains(got.Text, tt.text) {
				t.Errorf("got %q %q, want %q %q", got.Reason, got.Text, tt.status, tt.text)
			}
			if want := tt.status == ""; got.IsOK() != want {
				t.Errorf("status = %v", got.Status)
			}
			if strings.Contains(got.Text, "secret") {
				t.Errorf("the text shows what it must not: %q", got.Text)
			}
		})
	}
}

func TestFuncSchemaIsAnObjectWithDescriptions(t *testing.T) {
	var schema struct {
		Type       string                    `json:"type"`
		Required   []string                  `json:"required"`
		Properties map[string]map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(greet.Spec().Schema, &schema); err != nil {
		t.Fatal(err)
	}
	if schema.Type != "object" || len(schema.Required) != 1 || schema.Required[0] != "name" || schema.Properties["name"]["description"] != "whom to greet" {
		t.Errorf("schema = %s", greet.Spec().Schema)
	}
}

func TestResultWithDoesNotTouchTheOriginal(t *testing.T) {
	a := OK("x").With("k", 1)
	if b := a.With("k", 2); a.Data["k"] != 1 || b.Data["k"] != 2 || b.Status != threadv1.ToolStatus_TOOL_STATUS_OK {
		t.Errorf("a = %v, b = %v", a.Data, b.Data)
	}
}
