package offline

import (
	"encoding/json"
	"testing"

	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/model/modeltest"
	"github.com/gantry-agents/gantry/libs/testkit"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

func TestConformance(t *testing.T) {
	modeltest.Run(testkit.Wrap(t), modeltest.Profile{
		New:   func(testing.TB) model.Provider { return New() },
		Model: Model,
		Text:  "Reply with 'all is well'", Answer: "all is well",
		Unicode: "Reply with 'Grüße, 你好, 🎉'", UnicodeAnswer: "Grüße, 你好, 🎉",
		Long: "Reply with 'a long answer that has to be broken off before its end because nobody wants to hear the rest of it'",
		Tool: &modeltest.ToolCase{
			Spec: model.ToolSpec{Name: "read_file", Schema: json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}`)},
			Say:  "read a.md", Arguments: `{"path":"a.md"}`, Result: "what a.md holds", Answer: "what a.md holds",
		},
		UnknownModel: "gpt",
	})
}
