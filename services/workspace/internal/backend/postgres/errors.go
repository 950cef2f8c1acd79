package postgres

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// repeatable says whether the database asks to run the transaction again.
func repeatable(err error) bool {
	pe, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (pe.Code == "40001" || pe.Code == "40P01")
}

// mapError turns an error of the driver into one of a class. Errors that have one pass unchanged.
func mapError(err error) error {
	if _, typed := errors.AsType[*errdefs.Error](err); typed || err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	pe, ok := errors.AsType[*pgconn.PgError](err)
	if !ok {
		if _, network := errors.AsType[net.Error](err); network || pgconn.SafeToRetry(err) {
			return unavailable(err)
		}
		if _, connect := errors.AsType[*pgconn.ConnectError](err); connect {
			return unavailable(err)
		}
		return err
	}
	switch {
	case pe.Code == "53100", pe.Code == "25006":
		cause := map[string]string{"53100": "no space left", "25006": "the server is read-only"}[pe.Code]
		return errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonStoreReadOnly, "the store can't be written: "+cause+": %w", err).With("cause", cause)
	case strings.HasPrefix(pe.Code, "08"), strings.HasPrefix(pe.Code, "53"), strings.HasPrefix(pe.Code, "57"), repeatable(err):
		return unavailable(err)
	}
	return err
}

func unavailable(err error) error {
	return errdefs.Wrap(err, errdefs.ErrUnavailable, fsops.Domain, "", "the PostgreSQL store can't be reached now")
}
