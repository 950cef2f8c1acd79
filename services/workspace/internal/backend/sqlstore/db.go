package sqlstore

import (
	"context"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// DB is what a backend gives.
//
// Statements have numbered parameters ?1, ?2, … and use nothing but what both SQLite and PostgreSQL understand, apart from [Dialect].
type DB interface {
	Querier
	// Update runs f in a transaction that is durable when Update returns. Two updates of one space never overlap. f may run again when the database asks for it.
	Update(ctx context.Context, space files.Space, f func(ctx context.Context, q Querier) error) error
	// Dialect gives what differs.
	Dialect() Dialect
	// Error turns an error of the driver into one of a class, without the driver's text in the public message. Others pass unchanged.
	Error(err error) error
	// Capabilities of the backend.
	Capabilities() files.Capabilities
	// Close ends all connections, after the updates in work.
	Close() error
}

// Querier runs statements.
type Querier interface {
	// Exec returns how many rows the statement changed.
	Exec(ctx context.Context, statement string, args ...any) (int64, error)
	// Do runs a statement of whose outcome nobody needs to know now. In an update it may travel with the next statement, or with the commit, which then returns its error; arguments must stay as
	// they are until then.
	Do(ctx context.Context, statement string, args ...any) error
	// Query passes each row to scan, whose argument reads the columns.
	Query(ctx context.Context, statement string, scan func(row Row) error, args ...any) error
	// Later is Query whose rows need not be there when it returns. They are when the next Exec or Query returns, with which the statement may travel.
	Later(ctx context.Context, statement string, scan func(row Row) error, args ...any) error
}

// Row reads the columns of one row.
type Row interface {
	Scan(dest ...any) error
}

// Dialect is what differs between databases.
type Dialect struct {
	// ForUpdate ends a select of a row that is to stay locked.
	ForUpdate string
	// TryForUpdate is ForUpdate that leaves out a row which another transaction has locked.
	TryForUpdate string
	// InTexts and InNumbers are the condition that the value before them is one of the elements of the list in a parameter.
	InTexts, InNumbers func(parameter string) string
	// Texts and Numbers are lists as the database takes them.
	Texts   func([]string) any
	Numbers func([]int64) any
	// NextIDs returns unused numbers for rows of contents, some at once. "": rows get theirs when they are inserted.
	NextIDs string
	// Joined stands for two byte strings, one after the other.
	Joined func(a, b string) string
	// MaxKeyBytes bounds a key. 0: no bound.
	MaxKeyBytes int
}
