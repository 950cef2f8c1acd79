package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// The files that all workers of a bucket change at once.
const (
	logFile     = "together/log"
	counterFile = "together/counter"
	raceDir     = "together/race/"
)

// log adds a line to the shared file.
func (w *worker) log(ctx context.Context) {
	line := fmt.Sprintf("%s worker %d line %d", w.bucket.mark, w.number, w.n)
	req := &filesystemv1.AppendRequest{Path: logFile, Content: []byte(line + "\n")}
	w.do(ctx, change{
		name: "log",
		call: func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error) {
			return c.Append(ctx, req)
		},
		apply: func(_ tree, answer proto.Message) []event {
			if answer != nil {
				w.logged = append(w.logged, line)
			}
			return nil
		},
	})
}

// raise adds one to the shared counter, by the revision that it read.
func (w *worker) raise(ctx context.Context) {
	for try := 0; ctx.Err() == nil; try++ {
		var revision string
		var content []byte
		err, ok := w.see(ctx, func(c filesystemv1.FilesystemServiceClient) (err error) {
			var info *filesystemv1.FileInfo
			info, content, err = w.download(ctx, c, counterFile, "")
			revision = info.GetRevision()
			return err
		})
		if !ok {
			return
		}
		req := &filesystemv1.WriteRequest{Path: counterFile, Mode: filesystemv1.WriteMode_WRITE_MODE_IF_REVISION, IfRevision: revision}
		switch {
		case errdefs.ReasonOf(err) == fsops.ReasonPathNotFound:
			req.Mode = filesystemv1.WriteMode_WRITE_MODE_CREATE
		case err != nil:
			w.run.fault(wrong, "%s read the counter: %v", w.bucket.name, err)
			return
		}
		n, _ := strconv.Atoi(strings.TrimSpace(string(content)))
		req.Content = fmt.Appendf(nil, "%d\n", n+1)
		if w.try(ctx, fmt.Sprintf("raise %d", try), req) {
			w.counted++
			return
		}
	}
}

// race makes a file that others try to make too.
func (w *worker) race(ctx context.Context) {
	p := raceDir + strconv.Itoa(w.n/20)
	content := fmt.Sprintf("%s worker %d\n", w.bucket.mark, w.number)
	if w.try(ctx, "race "+p, &filesystemv1.WriteRequest{Path: p, Content: []byte(content), Mode: filesystemv1.WriteMode_WRITE_MODE_CREATE}) {
		w.made[p] = content
	}
}

// try makes a write that another worker may win. It says whether this one did.
func (w *worker) try(ctx context.Context, name string, req *filesystemv1.WriteRequest) bool {
	c := change{
		name: name, want: "not known",
		call: func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error) {
			return c.Write(ctx, req)
		},
	}
	id := w.effect(name)
	answer, _, err := w.attempt(ctx, id, c)
	if ctx.Err() != nil {
		return false
	}
	switch reason := errdefs.ReasonOf(err); {
	case err == nil:
		if w.rng.IntN(5) == 0 {
			w.again(ctx, id, c, answer)
		}
		return true
	case reason == fsops.ReasonPathExists || reason == fsops.ReasonRevisionConflict:
	default:
		w.run.fault(wrong, "%s %s: %v", w.bucket.name, name, err)
	}
	return false
}
