package run

import (
	"context"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/policy"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/tool"
)

// Facts are what a run's kit is made for. The context has the identity and the credential.
type Facts struct {
	Identity identity.Identity
	Bucket   identity.Bucket
	RunID    string
	// Call is what the caller asked for: spec, client tools, output schema. Text and media are not in it.
	Call *orchestratorv1.RunInput
	// Attributes are those of the call. Empty after a take-over.
	Attributes map[string]string
	// Child is set in the run of a task.
	Child *Child
	// Place is where the run's files are, as its kit said when it started. Empty: it starts now.
	Place string
	// State is the thread's projection as tools may see it; valid only inside a tool's call or a compilation.
	State StateView
}

// StateView reads the thread's state while the run works. Safe for concurrent use.
type StateView interface {
	Todos() []*threadv1.TodoItem
	Planning() (active bool, path string)
	Tasks() []loop.Task
}

// Child says what a run works for that another run delegated. It is stored with the task, so it holds grants and no tokens.
type Child struct {
	TaskID      string           `json:"task_id"`
	ParentRunID string           `json:"parent_run_id,omitempty"`
	Parent      *commonv1.Thread `json:"parent,omitempty"`
	Subagent    string           `json:"subagent,omitempty"`
	Label       string           `json:"label,omitempty"`
	Depth       int              `json:"depth,omitempty"`
	// Shared: the child works in the parent's bucket; else in a session bucket of its own.
	Shared bool `json:"shared,omitempty"`
	// Tools is the parent's list: the child has at most these. Nil: not narrowed.
	Tools []string `json:"tools,omitempty"`
	// Mode and Rules are the parent's policy, the child's ceiling.
	Mode     string   `json:"mode,omitempty"`
	Rules    []string `json:"rules,omitempty"`
	Planning bool     `json:"planning,omitempty"`
	// Model is the parent's, for a child that names none.
	Model string `json:"model,omitempty"`
	// UnknownOutcome is the parent's setting.
	UnknownOutcome string `json:"unknown_outcome,omitempty"`
	// Verbs and Prefixes are the parent's grant. Nil: not narrowed.
	Verbs    []string `json:"verbs,omitempty"`
	Prefixes []string `json:"prefixes,omitempty"`
}

// Compile is what a request is made from.
type Compile struct {
	Thread *loop.Thread
	Run    *loop.Run
	Model  model.Info
	// Final: no tools, and the wish for a summary.
	Final bool
	// Input is set for a preview: the message that is not in the conversation yet.
	Input *threadv1.Message
}

// Kit is what one run works with. It is made once a call: material of the workspace does not change under a run.
type Kit interface {
	// Settings bound the run.
	Settings() loop.Settings
	// Models names the model and the fallback; empty: the default, none.
	Models() (name, fallback string)
	// Place is where the run's files are; it is journaled, so that a take-over does not find another one.
	Place() string
	// Revision is that of the agent's definition.
	Revision() string
	// Tool finds a tool of the run.
	Tool(name string) (tool.Tool, bool)
	// ToolNames lists them, sorted.
	ToolNames() []string
	// Policy is that of the run now: the thread's own rules included.
	Policy(t *loop.Thread) policy.Policy
	// Compile makes a request. CONTEXT_OVERFLOW when it is too large whatever is dropped.
	Compile(ctx context.Context, in Compile) (model.Request, *threadv1.RequestPrepared, error)
	// Compaction are the settings of compaction.
	Compaction() Compaction
	// Notices are problems of the definition that a person should know.
	Notices() []*threadv1.NoticeShown
}

// Compaction are the settings of compaction. Zero fields have their defaults.
type Compaction struct {
	// Messages triggers at that many. Default 50; negative: never by count.
	Messages int
	// ReserveTokens: triggers at the window less this. Default 20,000.
	ReserveTokens int
	// KeepMessages stay. Default 20.
	KeepMessages int
}

// Kits makes kits.
type Kits interface {
	Kit(ctx context.Context, f Facts) (Kit, error)
}

// Models finds models.
type Models interface {
	// Resolve gives the model of a name; empty is the default one. MODEL_NOT_FOUND when there is none.
	Resolve(ctx context.Context, name string) (ResolvedModel, error)
}

// ResolvedModel is a model at a provider.
type ResolvedModel struct {
	Provider model.Provider
	// Ref is the full name; Name is what the provider knows.
	Ref, Name string
	Info      model.Info
}
