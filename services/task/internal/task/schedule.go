package task

import (
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
)

// Schedule creates tasks at times.
type Schedule struct {
	Tenant string
	ID     string
	Seq    int64
	Owner  string

	Label    string
	Cron     string        `json:",omitempty"`
	Interval time.Duration `json:",omitempty"`
	Zone     string        `json:",omitempty"`
	Template Template
	// SkipMissed drops firings that were missed instead of making one of them all.
	SkipMissed bool `json:",omitempty"`
	// Overlap creates a task although the one before has not ended.
	Overlap bool `json:",omitempty"`
	Paused  bool `json:",omitempty"`

	Identity identity.Identity
	Bucket   string
	Grant    Grant

	Next       time.Time `json:",omitzero"`
	Last       time.Time `json:",omitzero"`
	LastTaskID string    `json:",omitempty"`
	Fired      int64
	Skipped    int64
	CreateTime time.Time
	UpdateTime time.Time
	Revision   int64
	// Annotations is a google.protobuf.Struct in wire form.
	Annotations []byte      `json:",omitempty"`
	Request     RequestMark `json:",omitzero"`
}

// Template is what a schedule creates.
type Template struct {
	Kind, Queue, Capability, Label string
	Input                          *Input
	ParentThread                   identity.Thread `json:",omitzero"`
	Delivery                       Delivery
	MaxAttempts                    int
	Timeout                        time.Duration `json:",omitempty"`
	Budget                         Budget        `json:",omitzero"`
	Priority                       int
}
