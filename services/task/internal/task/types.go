package task

import (
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
)

// State is where a task stands. The numbers are stored and those of the API.
type State uint8

// The states. The last four are terminal: a task never leaves them.
const (
	Pending   State = 1
	Running   State = 2
	Waiting   State = 3
	Completed State = 4
	Failed    State = 5
	Cancelled State = 6
	Partial   State = 7
)

var stateNames = map[State]string{
	Pending: "PENDING", Running: "RUNNING", Waiting: "WAITING",
	Completed: "COMPLETED", Failed: "FAILED", Cancelled: "CANCELLED", Partial: "PARTIAL",
}

// String returns the name that the API has, without its prefix.
func (s State) String() string {
	if name, ok := stateNames[s]; ok {
		return name
	}
	return "INVALID"
}

// Terminal says whether a task in this state has ended.
func (s State) Terminal() bool { return s >= Completed }

// Delivery is what happens to the result. The numbers are stored and those of the API.
type Delivery uint8

// The ways to deliver.
const (
	// DeliverNone leaves the result where it is.
	DeliverNone Delivery = 1
	// DeliverQueue puts it into the parent thread's mailbox.
	DeliverQueue Delivery = 2
	// DeliverWake does so and wakes an idle thread.
	DeliverWake Delivery = 3
)

// Task is one task. Input and Result are kept apart by stores, since they are large and do not change; they are nil where they were not asked for.
type Task struct {
	Tenant string
	ID     string
	// Seq is the order of creation within the store. The store sets it.
	Seq int64
	// Owner and RootOwner are who may see the task: the owner keys ([OwnerKey]) of its creator and of the creator of the topmost task above it.
	Owner     string
	RootOwner string

	Kind       string
	Queue      string
	Capability string
	Label      string
	Priority   int

	State         State
	CancelAsked   bool      `json:",omitempty"`
	CancelTime    time.Time `json:",omitzero"`
	CancelReason  string    `json:",omitempty"`
	Identity      identity.Identity
	Bucket        string
	Grant         Grant
	ParentID      string          `json:",omitempty"`
	RootID        string          `json:",omitempty"`
	Depth         int             `json:",omitempty"`
	ParentThread  identity.Thread `json:",omitzero"`
	ChildThread   identity.Thread `json:",omitzero"`
	Delivery      Delivery
	DeliveredTime time.Time `json:",omitzero"`

	Input  *Input  `json:"-"`
	Result *Result `json:"-"`
	Fault  Fault   `json:",omitzero"`

	Attempts    int
	MaxAttempts int
	Backoff     Backoff   `json:",omitzero"`
	NotBefore   time.Time `json:",omitzero"`
	Deadline    time.Time `json:",omitzero"`
	Budget      Budget    `json:",omitzero"`
	Progress    Progress  `json:",omitzero"`

	// Epoch is the fencing token of the last lease.
	Epoch int64
	Lease Lease `json:",omitzero"`
	// Interrupted says that the next lease goes on with an attempt that was begun: it does not count as a new one.
	Interrupted bool        `json:",omitempty"`
	Wait        WaitingFor  `json:",omitzero"`
	Answers     []Answer    `json:",omitempty"`
	ChildEnded  bool        `json:",omitempty"`
	LastCall    []byte      `json:",omitempty"`
	Request     RequestMark `json:",omitzero"`

	CreateTime time.Time
	StartTime  time.Time `json:",omitzero"`
	EndTime    time.Time `json:",omitzero"`
	UpdateTime time.Time
	Revision   int64

	RetryOf     string            `json:",omitempty"`
	ScheduleID  string            `json:",omitempty"`
	Annotations map[string]string `json:",omitempty"`
}

// RequestMark remembers which request created a task, so that the same request finds it again.
type RequestMark struct {
	// ID is the client's request id. Empty: the task was made under an effect id, or under none.
	ID string `json:",omitempty"`
	// Hash is of the request.
	Hash []byte `json:",omitempty"`
}

// Grant is what the creator was allowed to do.
type Grant struct {
	Verbs []string `json:",omitempty"`
	// Prefixes limit paths when Limited is set.
	Prefixes []string `json:",omitempty"`
	Limited  bool     `json:",omitempty"`
}

// Input is what to do. Data is a google.protobuf.Struct in wire form.
type Input struct {
	Text  string `json:",omitempty"`
	Data  []byte `json:",omitempty"`
	Bytes []byte `json:",omitempty"`
}

// Result is what came of a task. Data is a google.protobuf.Struct in wire form.
type Result struct {
	Text          string `json:",omitempty"`
	Data          []byte `json:",omitempty"`
	Truncated     bool   `json:",omitempty"`
	FullTextPath  string `json:",omitempty"`
	FullTextBlob  string `json:",omitempty"`
	FullTextBytes int64  `json:",omitempty"`
}

// Empty says that there is nothing in the result that could be used.
func (r *Result) Empty() bool {
	return r == nil || (blank(r.Text) && len(r.Data) == 0 && r.FullTextPath == "" && r.FullTextBlob == "")
}

// Fault is why a task, or one attempt of it, failed.
type Fault struct {
	Reason    string
	Message   string
	Retryable bool
}

// The reasons that the server gives.
const (
	FaultDeadline     = "DEADLINE_EXCEEDED"
	FaultWorkerLost   = "WORKER_LOST"
	FaultBudget       = "BUDGET_EXCEEDED"
	FaultParentEnded  = "PARENT_ENDED"
	FaultCancelForced = "CANCEL_FORCED"
	FaultCancelled    = "CANCELLED"
)

// Backoff is the wait between attempts.
type Backoff struct{ Initial, Max time.Duration }

// Budget is what a task may use. Zero: no limit.
type Budget struct{ Steps, Tokens, CostMicros int64 }

// Progress is how far a task is. The numbers are totals and never fall.
type Progress struct {
	Steps, Tokens, CostMicros int64
	Percent                   int
	Message                   string
	Tail                      string
	Time                      time.Time `json:",omitzero"`
}

// Lease says who works on a task. The zero value: nobody.
type Lease struct {
	Worker  string
	Expire  time.Time
	Life    time.Duration
	Resumed bool
}

// WaitingFor is what a task in [Waiting] waits for.
type WaitingFor struct {
	Interactions []Interaction `json:",omitempty"`
	Resume       time.Time     `json:",omitzero"`
	OnChild      bool          `json:",omitempty"`
	Since        time.Time     `json:",omitzero"`
}

// Interaction is something that somebody must answer. Raw is a gantry.thread.v1.Interaction in wire form.
type Interaction struct {
	ID     string
	Expire time.Time `json:",omitzero"`
	Raw    []byte    `json:",omitempty"`
}

// Answer answers one interaction. Data is a google.protobuf.Struct in wire form.
type Answer struct {
	InteractionID string
	Decision      string
	Texts         []string `json:",omitempty"`
	Data          []byte   `json:",omitempty"`
	Actor         string   `json:",omitempty"`
	Time          time.Time
}

// DecisionExpired is the decision of an answer that the server gave because the interaction's time was up.
const DecisionExpired = "expired"

// Viewer is on whose behalf tasks are looked at.
type Viewer struct {
	Tenant string
	// Owner is an owner key. Empty: a worker, which reaches every task of the tenant.
	Owner string
	// User limits a worker that acts for one user: a capability of a run. Only read when Owner is empty and ByUser is set.
	User   string
	ByUser bool
}

// Sees says whether the viewer may know that the task exists.
func (v Viewer) Sees(t *Task) bool {
	switch {
	case t.Tenant != v.Tenant:
		return false
	case v.Owner != "":
		return t.Owner == v.Owner || t.RootOwner == v.Owner
	case v.ByUser:
		return t.Identity.User == v.User
	}
	return true
}

// OwnerKey returns the key of who owns what the identity creates: (tenant, agent, user), and for an anonymous user the session as well. An anonymous identity without a session is
// IDENTITY_REQUIRED.
func OwnerKey(id identity.Identity) (string, error) {
	// Scope user degrades to session for the anonymous: exactly the rule of ownership.
	id.Scope = identity.ScopeUser
	bucket, err := id.Bucket()
	if err != nil {
		return "", err
	}
	return bucket.Key(), nil
}
