// Package index is the port of the full-text index: documents go in by source, come out by text.
//
// The words: a document is one statement, paragraph or message; a source is what documents are made from, a file or a thread; a source has a revision,
// by which the caller knows whether the documents of the source are current. An index holds no truth: it can be thrown away and built again from its
// sources at any time. What a document says beyond what is searched travels along untouched in its Meta.
package index

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

// ErrDamaged says that what is stored can't be read. The index is to be destroyed and built again.
var ErrDamaged = errors.New("index: damaged")

// ErrLocked says that another process has the index open.
var ErrLocked = errors.New("index: held by another process")

// Index is one open index. It is safe for concurrent use; the caller sees to it that only one goroutine changes it at a time.
//
// A panic inside an implementation comes out as ErrDamaged.
type Index interface {
	// Apply makes the changes of the batch, all or none. They are seen by every search that begins after it returned.
	Apply(ctx context.Context, b Batch) error
	// Revisions gives the revision of every source. The map is the caller's.
	Revisions(ctx context.Context) (map[string]string, error)
	// Source gives the state of one source; ok is false when there is none.
	Source(ctx context.Context, name string) (s Source, ok bool, err error)
	// Lookup gives the documents whose fact id, content hash or source is the value, at most limit.
	Lookup(ctx context.Context, field Field, value string, limit int) ([]Doc, error)
	// Search gives the best documents.
	Search(ctx context.Context, q Query) (Result, error)
	// Stats counts what the index holds.
	Stats(ctx context.Context) (Stats, error)
	// Close lets go of it. Later calls of other methods fail.
	Close() error
}

// Backend opens indexes by key. Keys are relative paths made of legal file names (package identity makes such); none is a prefix of another.
type Backend interface {
	// Open opens the index of that key, empty when there is none yet. Errors: ErrDamaged, ErrLocked.
	Open(ctx context.Context, key string) (Index, error)
	// Destroy removes the index of that key; the index must be closed. Missing is fine.
	Destroy(ctx context.Context, key string) error
	// Exists says whether there is an index of that key, and its size in bytes.
	Exists(ctx context.Context, key string) (bytes int64, ok bool)
}

// Kind is what a document is.
type Kind uint8

// The kinds.
const (
	KindFact    Kind = 1 // an entry of a ledger
	KindMemory  Kind = 2 // a line of MEMORY.md
	KindNote    Kind = 3 // a line of another memory file
	KindMessage Kind = 4 // a message of a thread
)

// Doc is one document.
type Doc struct {
	// ID is unique within the index.
	ID     string
	Kind   Kind
	Source string
	// Text is what is searched and shown.
	Text     string
	Headings []string
	// Line and EndLine are where it stands in a file, from 1.
	Line, EndLine int
	Time          time.Time
	FactID        string
	// Hash is the hash of the content: documents of equal hash say the same.
	Hash     string
	FactKind uint8
	Trust    uint8
	Session  string
	Seq      int64
	Speaker  string
	// Meta is the caller's.
	Meta []byte
}

// Source is the state of one source.
type Source struct {
	Revision string
	// Docs holds the fingerprint of each document, by id.
	Docs map[string]string
}

// Batch is a set of changes.
type Batch struct {
	Put    []Doc
	Delete []string
	// Sources are the new states; nil removes one.
	Sources map[string]*Source
}

// Field is a field for Lookup.
type Field uint8

// The fields.
const (
	FieldFactID Field = iota
	FieldHash
	FieldSource
)

// Mode says how the terms of a query count.
type Mode uint8

// The modes.
const (
	ModeAny    Mode = iota // any term, more and rarer ones first
	ModeAll                // every term that is no common word
	ModePhrase             // the terms side by side
)

// Query is a search.
type Query struct {
	Text text.Query
	Mode Mode
	// Prefix finds words that begin with the terms instead, and single characters of runs.
	Prefix bool
	Filter Filter
	Offset int
	Limit  int
	// Explain fills Hit.Terms.
	Explain bool
}

// Filter narrows a search. Empty lists mean everything, but for Sources, where only nil does.
type Filter struct {
	Kinds     []Kind
	FactKinds []uint8
	Trusts    []uint8
	Sources   []string
	Sessions  []string
	Speakers  []string
	// Start and End bound Doc.Time, the start included. Zero: open.
	Start, End time.Time
}

// Result is what a search found.
type Result struct {
	// Hits are ordered by score, then by id.
	Hits []Hit
	// Total counts all documents that match.
	Total int64
}

// Hit is one document.
type Hit struct {
	Doc   Doc
	Score float64
	Terms []TermScore
}

// TermScore is the share of one term.
type TermScore struct {
	Field, Term string
	Score       float64
}

// Stats counts.
type Stats struct{ Docs, Sources int64 }
