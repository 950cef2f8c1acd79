// Package thread serves gantry.thread.v1.ThreadService on a [journal.Store]: identity to thread key, protobuf to the journal's types and back, streams.
// Errors are typed errors of package errdefs; the server chain makes statuses of them.
package thread

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

const (
	// claimWait and followWait are the waits of callers who state none.
	claimWait  = 10 * time.Second
	followWait = 10 * time.Minute
	// maxFollowWait is the longest that a caller may state.
	maxFollowWait = time.Hour
	// The sizes of pages whose callers state none.
	listSize    = 50
	changesSize = 100
	mailLimit   = 64
)

// Server serves the journal. It owns nothing: the store is closed by whoever opened it.
type Server struct {
	threadv1.UnimplementedThreadServiceServer

	store journal.Store
}

var _ threadv1.ThreadServiceServer = (*Server)(nil)

// New returns the server of a store. Long polls and follows end in good order, with an empty answer or an `end`, when the gRPC server of the call
// stops ([server.Stopping]).
func New(store journal.Store) *Server { return &Server{store: store} }

// waiting returns ctx for a call that may wait long: it ends when the server stops. stopped says whether that is why an error came.
func waiting(ctx context.Context) (_ context.Context, stopped func(error) bool, done func()) {
	wait, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-server.Stopping(ctx):
			cancel(errStopping)
		case <-wait.Done():
		}
	}()
	stopped = func(err error) bool {
		return errors.Is(err, context.Canceled) && errors.Is(context.Cause(wait), errStopping)
	}
	return wait, stopped, func() { cancel(nil) }
}

// errStopping is the cause of contexts that end with the server.
var errStopping = errors.New("the server stops")

// user returns whose threads are listed. A session is not needed.
func user(ctx context.Context) (journal.User, error) {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return journal.User{}, errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, identity.ReasonRequired, "the call has no identity")
	}
	// Only for the defaults and the checks; the session is not part of the user.
	id.Session = "any"
	t, err := id.Thread()
	return journal.UserOf(t), err
}

// target returns the thread that a post is for: the one it names, within the caller's tenant, or that of the identity.
func target(ctx context.Context, named *commonv1.Thread) (identity.Thread, error) {
	if named == nil {
		return identity.ThreadFromContext(ctx)
	}
	u, err := user(ctx)
	if err != nil {
		return identity.Thread{}, err
	}
	if named.GetTenant() != "" && named.GetTenant() != u.Tenant {
		return identity.Thread{}, errdefs.New(errdefs.ErrPermissionDenied, journal.Domain, "", "the thread is not in the tenant of the call")
	}
	t := identity.Thread{Tenant: u.Tenant, Agent: named.GetAgent(), User: named.GetUser(), Session: named.GetSession()}
	return t, t.Validate()
}

// wait returns a stated wait within its bounds, or the default.
func wait(stated *durationpb.Duration, fallback, most time.Duration) (time.Duration, error) {
	if stated == nil {
		return fallback, nil
	}
	d := stated.AsDuration()
	if d < 0 || d > most {
		return 0, errdefs.New(errdefs.ErrInvalidArgument, journal.Domain, "", "max_wait is not from 0 to %s", most)
	}
	return d, nil
}

// or returns n, or the default when it is not positive.
func or(n, fallback int32) int {
	if n <= 0 {
		return int(fallback)
	}
	return int(n)
}
