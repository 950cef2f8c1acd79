package filesystem

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	watchWait    = 10 * time.Minute
	maxWatchWait = time.Hour
)

var errStopping = errors.New("the server stops")

// Watch implements the service. When the server stops, the stream ends in good order, with the cursor to go on from.
func (s *Server) Watch(req *filesystemv1.WatchRequest, stream grpc.ServerStreamingServer[filesystemv1.WatchResponse]) error {
	c, err := s.callers.Open(stream.Context())
	if err != nil {
		return err
	}
	var glob *fsops.Glob
	if req.GetGlob() != "" {
		if glob, err = fsops.CompileGlob(req.GetGlob()); err != nil {
			return err
		}
	}
	after, err := s.watchFrom(stream.Context(), c.View, req.GetCursor())
	if err != nil {
		return err
	}
	wait := watchWait
	if req.GetMaxWait() != nil {
		wait = min(req.GetMaxWait().AsDuration(), maxWatchWait)
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	go func() {
		select {
		case <-server.Stopping(stream.Context()):
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()

	start := func(cursor files.Cursor) error {
		return stream.Send(&filesystemv1.WatchResponse{Event: &filesystemv1.WatchResponse_Start{Start: &filesystemv1.WatchStart{Cursor: cursor.String()}}})
	}
	if err := start(after); err != nil {
		return err
	}
	shown := func(p fsops.Path) bool {
		return !p.IsRoot() && c.Grant.AllowsPath(p.String()) && (glob == nil || glob.Match(p))
	}
	end, err := c.View.Follow(ctx, after, wait, start, func(change files.Change) error {
		if !shown(change.Path) && !shown(change.From) {
			return nil
		}
		return stream.Send(&filesystemv1.WatchResponse{Event: &filesystemv1.WatchResponse_Change{Change: changeOf(change)}})
	})
	if err != nil && !errors.Is(context.Cause(ctx), errStopping) {
		return err
	}
	return stream.Send(&filesystemv1.WatchResponse{Event: &filesystemv1.WatchResponse_End{End: &filesystemv1.WatchEnd{Cursor: end.String()}}})
}

// watchFrom reads the cursor of a request; none means from now.
func (s *Server) watchFrom(ctx context.Context, view *files.View, text string) (files.Cursor, error) {
	if text == "" {
		return view.Head(ctx)
	}
	return files.ParseCursor(text)
}
