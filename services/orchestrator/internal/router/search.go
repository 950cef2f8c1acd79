package router

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// defaultMatches is the cap of a Grep that names none, as the contract states it.
const defaultMatches = 1000

// List lists a directory, merged over both trees at the root.
func (r *Router) List(ctx context.Context, req *fsv1.ListRequest) (*fsv1.ListResponse, error) {
	if both, err := r.spans(ctx, req.GetPath()); err != nil || !both {
		return orForward(err, func() (*fsv1.ListResponse, error) {
			return forward(ctx, r, req, fsv1.FilesystemServiceClient.List)
		})
	}
	out, err := r.merged(ctx, req.GetPageSize(), req.GetPageToken(), func(ctx context.Context, c fsv1.FilesystemServiceClient, pageToken string) (page, error) {
		part := proto.Clone(req).(*fsv1.ListRequest)
		part.PageToken = pageToken
		got, err := c.List(ctx, part)
		return page{got.GetEntries(), got.GetNextPageToken(), got.GetWarnings()}, err
	})
	return &fsv1.ListResponse{Entries: out.entries, NextPageToken: out.next, Warnings: out.warnings}, err
}

// Glob finds paths, over both trees from the root.
func (r *Router) Glob(ctx context.Context, req *fsv1.GlobRequest) (*fsv1.GlobResponse, error) {
	if both, err := r.spans(ctx, req.GetPath()); err != nil || !both {
		return orForward(err, func() (*fsv1.GlobResponse, error) {
			return forward(ctx, r, req, fsv1.FilesystemServiceClient.Glob)
		})
	}
	out, err := r.merged(ctx, req.GetPageSize(), req.GetPageToken(), func(ctx context.Context, c fsv1.FilesystemServiceClient, pageToken string) (page, error) {
		part := proto.Clone(req).(*fsv1.GlobRequest)
		part.PageToken = pageToken
		got, err := c.Glob(ctx, part)
		return page{got.GetEntries(), got.GetNextPageToken(), got.GetWarnings()}, err
	})
	return &fsv1.GlobResponse{Entries: out.entries, NextPageToken: out.next, Warnings: out.warnings}, err
}

func orForward[T any](err error, call func() (*T, error)) (*T, error) {
	if err != nil {
		return nil, err
	}
	return call()
}

// Grep searches content, over both trees from the root: first the workspace, then what the cap leaves in the sandbox.
func (r *Router) Grep(req *fsv1.GrepRequest, out grpc.ServerStreamingServer[fsv1.GrepResponse]) error {
	ctx := out.Context()
	both, err := r.spans(ctx, req.GetPath())
	if err != nil {
		return err
	}
	if !both {
		owner, err := r.owner(ctx, req.GetPath())
		if err != nil {
			return err
		}
		in, err := owner.Grep(ctx, req)
		if err != nil {
			return err
		}
		return relay(in, out.Send)
	}
	total, left := &fsv1.GrepEnd{}, int64(req.GetMaxMatches())
	if left <= 0 {
		left = defaultMatches
	}
	for _, tree := range []struct {
		client fsv1.FilesystemServiceClient
		keep   func(string) bool
	}{{r.workspace, Owns}, {r.sandbox, func(p string) bool { return !Owns(p) }}} {
		if left <= 0 {
			total.Truncated, total.Reason = true, "max_matches"
			break
		}
		in, err := tree.client.Grep(ctx, req)
		if err != nil {
			return err
		}
		sent, err := grepTree(in, tree.keep, left, total, out.Send)
		if err != nil {
			return err
		}
		left -= sent
	}
	return out.Send(&fsv1.GrepResponse{Result: &fsv1.GrepResponse_End{End: total}})
}

// grepTree sends the matches of one tree and adds its end to the total. A stream without an end message is an error: it
// must not look complete.
func grepTree(in grpc.ServerStreamingClient[fsv1.GrepResponse], keep func(string) bool, most int64, total *fsv1.GrepEnd, send func(*fsv1.GrepResponse) error) (sent int64, err error) {
	for {
		msg, err := in.Recv()
		if errors.Is(err, io.EOF) {
			return sent, errdefs.New(errdefs.ErrUnavailable, Domain, "STREAM_BROKEN", "the search ended without saying whether it is complete")
		}
		if err != nil {
			return sent, err
		}
		if m := msg.GetMatch(); m != nil {
			if !keep(m.GetPath()) {
				continue
			}
			if sent == most {
				total.Truncated, total.Reason = true, "max_matches"
				continue
			}
			sent++
			total.Matches++
			if err := send(msg); err != nil {
				return sent, err
			}
			continue
		}
		end := msg.GetEnd()
		total.Files += end.GetFiles()
		total.BinaryFiles += end.GetBinaryFiles()
		total.Warnings = append(total.Warnings, end.GetWarnings()...)
		if end.GetTruncated() {
			total.Truncated, total.Reason = true, end.GetReason()
		}
		return sent, nil
	}
}
