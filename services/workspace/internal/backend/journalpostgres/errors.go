package journalpostgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsql"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

var (
	errBusy = errdefs.New(errdefs.ErrUnavailable, journal.Domain, "", "the journal store has too much to do").RetryIn(100 * time.Millisecond)
	errDSN  = errdefs.New(errdefs.ErrInvalidArgument, journal.Domain, "", "the DSN of the journal's PostgreSQL can't be parsed")
)

func errNewer(name string) error {
	return errdefs.New(errdefs.ErrFailedPrecondition, journal.Domain, "",
		"the journal's database has the migration %s, which this program does not know; use a newer program", name)
}

// repeatable says whether the database asks to run the transaction again, or another one made a row first that this one will find the next time.
func repeatable(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pe.Code == "40001" || pe.Code == "40P01" || pe.Code == "23505")
}

// failed gives an error of the driver a class. Typed errors stay as they are; one that came of the end of ctx is ctx's. The driver's text is
// for the log alone.
func failed(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if end := ctx.Err(); end != nil && !typed(err) {
		return end
	}
	if journalsql.IsTyped(err) {
		return err
	}
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		if lost(err) {
			return unreachable(err)
		}
		return errdefs.Wrap(err, errdefs.ErrInternal, journal.Domain, "", "the journal store failed")
	}
	switch {
	case pe.Code == "53100":
		return errdefs.Wrap(err, errdefs.ErrResourceExhausted, journal.Domain, "", "the journal's disk is full")
	case pe.Code == "25006":
		return errdefs.Wrap(err, errdefs.ErrUnavailable, journal.Domain, "", "the journal's database is read-only")
	case pe.Code == "XX001", pe.Code == "XX002":
		return errdefs.Wrap(err, errdefs.ErrDataLoss, journal.Domain, journal.ReasonJournalDamaged, "the journal's database is damaged")
	case strings.HasPrefix(pe.Code, "08"), strings.HasPrefix(pe.Code, "53"), strings.HasPrefix(pe.Code, "57"), repeatable(err):
		return unreachable(err)
	}
	return errdefs.Wrap(err, errdefs.ErrInternal, journal.Domain, "", "the journal store failed")
}

func typed(err error) bool {
	_, ok := errors.AsType[*errdefs.Error](err)
	return ok
}

// lost says whether the error is of the connection.
func lost(err error) bool {
	_, network := errors.AsType[net.Error](err)
	_, connect := errors.AsType[*pgconn.ConnectError](err)
	return network || connect || pgconn.SafeToRetry(err) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

func unreachable(err error) error {
	return errdefs.Wrap(err, errdefs.ErrUnavailable, journal.Domain, "", "the journal's database can't be reached now").RetryIn(100 * time.Millisecond)
}
