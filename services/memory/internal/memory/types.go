package memory

import "time"

// Trust says how far a fact may be believed. The numbers are those of the proto.
type Trust uint8

// The trusts.
const (
	TrustUser      Trust = 1 // the user said it
	TrustAgent     Trust = 2 // the agent concluded it
	TrustUntrusted Trust = 3 // from content that nobody vouches for
	TrustOutside   Trust = 4 // written into the file by somebody outside
)

// FactKind says what sort of fact it is. The numbers are those of the proto.
type FactKind uint8

// The kinds of facts.
const (
	FactPlain      FactKind = 1
	FactPreference FactKind = 2
	FactDecision   FactKind = 3
	FactCommitment FactKind = 4
	FactPerson     FactKind = 5
)

// kindTitles are the headlines of the kinds in MEMORY.md.
var kindTitles = map[FactKind]string{
	FactPlain: "Facts", FactPreference: "Preferences", FactDecision: "Decisions", FactCommitment: "Commitments", FactPerson: "People",
}

// Provenance is where a fact comes from.
type Provenance struct {
	Session  string    `json:"session,omitempty"`
	Agent    string    `json:"agent,omitempty"`
	User     string    `json:"user,omitempty"`
	Seq      int64     `json:"seq,omitempty"`
	Time     time.Time `json:"time"`
	Trust    Trust     `json:"trust"`
	Source   string    `json:"source,omitempty"`
	Evidence string    `json:"evidence,omitempty"`
	Speaker  string    `json:"speaker,omitempty"`
}

// NewFact is a fact to be saved.
type NewFact struct {
	Text       string
	Kind       FactKind
	Topic      string
	Provenance Provenance
}

// Fact is a fact as it is remembered.
type Fact struct {
	ID         string
	Text       string
	Kind       FactKind
	Topic      string
	Provenance Provenance
	Path       string
	Line       int
	Hash       string
	From       []string
}

// Saved is what became of a fact to be saved.
type Saved struct {
	Fact      Fact
	Duplicate bool
}

// Method says who does the thinking. The numbers are those of the proto.
type Method uint8

// The methods.
const (
	MethodAuto  Method = 1
	MethodModel Method = 2
	MethodRules Method = 3
)
