package router

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strconv"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

// maxMovedFiles bounds a move of a directory from one tree to the other.
const maxMovedFiles = 10_000

// Move renames within one tree, and copies, verifies and deletes from one tree to the other. Each part has an effect id derived from
// the call's, so a repeat after a crash goes on where it stopped.
func (r *Router) Move(ctx context.Context, req *fsv1.MoveRequest) (*fsv1.MoveResponse, error) {
	from, err := r.owner(ctx, req.GetFromPath())
	if err != nil {
		return nil, err
	}
	to, err := r.owner(ctx, req.GetToPath())
	if err != nil {
		return nil, err
	}
	if from == to {
		return from.Move(ctx, req)
	}
	files, err := moved(ctx, from, req)
	if errors.Is(err, errdefs.ErrNotFound) {
		return r.movedBefore(ctx, from, to, req, err)
	}
	if err != nil {
		return nil, err
	}
	for i, f := range files {
		mode := fsv1.WriteMode_WRITE_MODE_CREATE
		if req.GetOverwrite() {
			mode = fsv1.WriteMode_WRITE_MODE_OVERWRITE
		}
		if err := transfer(part(ctx, "copy-"+strconv.Itoa(i)), from, to, f, mode); err != nil {
			return nil, err
		}
	}
	gone, err := from.Delete(part(ctx, "delete"), deletion(req))
	if err != nil {
		return nil, err
	}
	return arrived(ctx, to, req, gone)
}

func deletion(req *fsv1.MoveRequest) *fsv1.DeleteRequest {
	return &fsv1.DeleteRequest{Path: req.GetFromPath(), Recursive: true, IfRevision: req.GetIfRevision(), AllowMissing: true}
}

func arrived(ctx context.Context, to fsv1.FilesystemServiceClient, req *fsv1.MoveRequest, gone *fsv1.DeleteResponse) (*fsv1.MoveResponse, error) {
	got, err := to.Stat(ctx, &fsv1.StatRequest{Path: req.GetToPath()})
	if err != nil {
		return nil, err
	}
	return &fsv1.MoveResponse{Info: got.GetInfo(), Files: gone.GetFiles(), Cursor: gone.GetCursor()}, nil
}

// movedBefore answers the repeat of a move whose last part was done already: the record of that part says so. Otherwise
// there is nothing to move.
func (r *Router) movedBefore(ctx context.Context, from, to fsv1.FilesystemServiceClient, req *fsv1.MoveRequest, missing error) (*fsv1.MoveResponse, error) {
	if id, ok := identity.FromContext(ctx); !ok || id.Effect == "" {
		return nil, missing
	}
	gone, err := from.Delete(part(ctx, "delete"), deletion(req))
	if err != nil || gone.GetFiles() == 0 {
		return nil, missing
	}
	return arrived(ctx, to, req, gone)
}

// pair is one file of a move.
type pair struct {
	from, to string
	info     *fsv1.FileInfo
}

// moved lists the files of a move, ordered by path so that a repeat derives the same effect ids.
func moved(ctx context.Context, from fsv1.FilesystemServiceClient, req *fsv1.MoveRequest) ([]pair, error) {
	got, err := from.Stat(ctx, &fsv1.StatRequest{Path: req.GetFromPath()})
	if err != nil {
		return nil, err
	}
	source, target := clean(req.GetFromPath()), clean(req.GetToPath())
	if got.GetInfo().GetKind() == fsv1.FileKind_FILE_KIND_FILE {
		if want := req.GetIfRevision(); want != "" && want != got.GetInfo().GetRevision() {
			return nil, errdefs.New(errdefs.ErrAborted, Domain, "REVISION_CONFLICT", "%s has changed", source).With("path", source).With("revision", got.GetInfo().GetRevision())
		}
		return []pair{{source, target, got.GetInfo()}}, nil
	}
	var files []pair
	for pageToken := ""; ; {
		list, err := from.List(ctx, &fsv1.ListRequest{Path: source, Recursive: true, PageSize: maxPage, PageToken: pageToken})
		if err != nil {
			return nil, err
		}
		for _, e := range list.GetEntries() {
			if e.GetKind() == fsv1.FileKind_FILE_KIND_FILE {
				files = append(files, pair{e.GetPath(), target + e.GetPath()[len(source):], e})
			}
		}
		if len(files) > maxMovedFiles {
			return nil, errdefs.New(errdefs.ErrResourceExhausted, Domain, "TOO_LARGE", "%s has more than %d files: move it in parts", source, maxMovedFiles)
		}
		if pageToken = list.GetNextPageToken(); pageToken == "" {
			return files, nil
		}
	}
}

// transfer copies one file from tree to tree and compares what arrived with what was sent.
func transfer(ctx context.Context, from, to fsv1.FilesystemServiceClient, f pair, mode fsv1.WriteMode) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the upload when the download fails: nothing becomes visible
	in, err := from.Download(ctx, &fsv1.DownloadRequest{Path: f.from})
	if err != nil {
		return err
	}
	out, err := to.Upload(ctx)
	if err != nil {
		return err
	}
	head := &fsv1.UploadHeader{Path: f.to, Mode: mode, FileMode: f.info.GetMode(), Sha256: f.info.GetSha256()}
	sum := sha256.New()
	err = out.Send(&fsv1.UploadRequest{Part: &fsv1.UploadRequest_Header{Header: head}})
	for err == nil {
		var done bool
		if done, err = pump(in, out.Send, sum); done {
			break
		}
	}
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the receiver has answered already
		return err
	}
	resp, err := out.CloseAndRecv()
	if err != nil {
		return err
	}
	if got, want := resp.GetInfo().GetSha256(), hex.EncodeToString(sum.Sum(nil)); got != want {
		return errdefs.New(errdefs.ErrAborted, Domain, "CHECKSUM_MISMATCH", "%s did not arrive as it was sent", f.to).With("want", want).With("got", got)
	}
	return nil
}

// pump passes one message on; done at the end message.
func pump(in interface {
	Recv() (*fsv1.DownloadResponse, error)
}, send func(*fsv1.UploadRequest) error, sum hash.Hash) (done bool, err error) {
	msg, err := in.Recv()
	if errors.Is(err, io.EOF) {
		return false, errdefs.New(errdefs.ErrUnavailable, Domain, "STREAM_BROKEN", "the download broke off")
	}
	if err != nil || msg.GetEnd() != nil {
		return err == nil, err
	}
	if chunk := msg.GetChunk(); len(chunk) > 0 {
		sum.Write(chunk)
		return false, send(&fsv1.UploadRequest{Part: &fsv1.UploadRequest_Chunk{Chunk: chunk}})
	}
	return false, nil
}

// part derives the effect id of one part of a call; a call without an effect id has parts without.
func part(ctx context.Context, name string) context.Context {
	id, ok := identity.FromContext(ctx)
	if !ok || id.Effect == "" {
		return ctx
	}
	id.Effect = effect.Derive(id.Effect, name)
	return identity.NewContext(ctx, id)
}
