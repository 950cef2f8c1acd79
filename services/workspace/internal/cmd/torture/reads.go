package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// tries bounds how often a read is made again while replicas are away.
const tries = 2000

// see reads until a replica answers. False: none did.
func (w *worker) see(ctx context.Context, read func(c filesystemv1.FilesystemServiceClient) error) (error, bool) {
	for range tries {
		err := read(w.client())
		if ctx.Err() != nil {
			return nil, false
		}
		if !uncertain(err) {
			return err, true
		}
		pause(ctx, 10_000_000)
	}
	w.run.fault(wrong, "%s: no replica answers", w.bucket.name)
	return nil, false
}

// compare holds an answer about a path against the model.
func (w *worker) compare(what, p string, err error, content []byte, revision string) {
	f, there := w.tree[p]
	want := w.tree.noFile(p)
	switch got := errdefs.ReasonOf(err); {
	case err != nil && there:
		w.run.fault(lost, "%s %s %s: %v, and it was acknowledged", w.bucket.name, what, p, err)
	case err != nil && got != want:
		w.run.fault(wrong, "%s %s %s: %v, the model says %q", w.bucket.name, what, p, err, want)
	case err == nil && !there:
		w.run.fault(wrong, "%s %s %s: there is something, the model says %q", w.bucket.name, what, p, want)
	case err == nil && content != nil && !f.same(content):
		w.run.fault(lost, "%s %s %s: %d bytes, not the %d that were acknowledged: %.80q… for %.80q…", w.bucket.name, what, p, len(content), len(f.content), content, f.content)
	case err == nil && f.revision != "" && f.revision != revision:
		w.run.fault(wrong, "%s %s %s: revision %s, acknowledged was %s", w.bucket.name, what, p, revision, f.revision)
	case err == nil && f.revision == "":
		w.tree[p] = file{content: f.content, revision: revision}
	}
}

// read reads a whole file.
func (w *worker) read(ctx context.Context) {
	p := w.aFile()
	var info *filesystemv1.FileInfo
	var content []byte
	err, ok := w.see(ctx, func(c filesystemv1.FilesystemServiceClient) (err error) {
		info, content, err = w.download(ctx, c, w.spelled(p), "")
		return err
	})
	if ok {
		w.compare("download", p, err, content, info.GetRevision())
	}
}

// window reads a part of a file.
func (w *worker) window(ctx context.Context) {
	p := w.aFile()
	f := w.tree[p]
	req := &filesystemv1.ReadRequest{Path: w.spelled(p), Mode: filesystemv1.ReadMode_READ_MODE_BYTES, LimitBytes: 1 + w.rng.Int64N(100_000)}
	if len(f.content) > 0 {
		req.OffsetBytes = w.rng.Int64N(int64(len(f.content)))
	}
	var got *filesystemv1.ReadResponse
	err, ok := w.see(ctx, func(c filesystemv1.FilesystemServiceClient) (err error) {
		ctx, cancel := context.WithTimeout(w.run.as(ctx, w.bucket, ""), callTimeout)
		defer cancel()
		got, err = c.Read(ctx, req)
		return err
	})
	if !ok {
		return
	}
	w.foreign("read of "+p, got.GetData())
	w.compare("read", p, err, nil, got.GetInfo().GetRevision())
	if err != nil || !w.tree.isFile(p) {
		return
	}
	from := min(int(req.GetOffsetBytes()), len(f.content))
	part := f.content[from:min(len(f.content), from+int(req.GetLimitBytes()))]
	if !bytes.Equal(part, got.GetData()) || got.GetMore() != (from+len(part) < len(f.content)) {
		w.run.fault(lost, "%s read %s from %d: %d bytes, more %t, not the %d that were acknowledged", w.bucket.name, p, from, len(got.GetData()), got.GetMore(), len(part))
	}
}

func (w *worker) stat(ctx context.Context) {
	p := w.anyPath()
	var got *filesystemv1.StatResponse
	err, ok := w.see(ctx, func(c filesystemv1.FilesystemServiceClient) (err error) {
		ctx, cancel := context.WithTimeout(w.run.as(ctx, w.bucket, ""), callTimeout)
		defer cancel()
		got, err = c.Stat(ctx, &filesystemv1.StatRequest{Path: w.spelled(p)})
		return err
	})
	if !ok {
		return
	}
	if w.tree.isDir(p) {
		if err != nil || got.GetInfo().GetKind() != filesystemv1.FileKind_FILE_KIND_DIRECTORY {
			w.run.fault(wrong, "%s stat %s: no directory: %v", w.bucket.name, p, err)
		}
		return
	}
	w.compare("stat", p, err, nil, got.GetInfo().GetRevision())
	if f, there := w.tree[p]; err == nil && there && got.GetInfo().GetSizeBytes() != int64(len(f.content)) {
		w.run.fault(lost, "%s stat %s: %d bytes, %d were acknowledged", w.bucket.name, p, got.GetInfo().GetSizeBytes(), len(f.content))
	}
}

// sameNames compares names that an answer shows with those of the model.
func (w *worker) sameNames(what string, got, want []string) {
	for _, p := range want {
		if !slices.Contains(got, p) {
			w.run.fault(lost, "%s %s does not show %s", w.bucket.name, what, p)
		}
	}
	for _, p := range got {
		if !slices.Contains(want, p) {
			w.run.fault(leaked, "%s %s shows %s, which this bucket never acknowledged or lost since", w.bucket.name, what, p)
		}
	}
}

func (w *worker) listing(ctx context.Context) {
	var got entries
	err, ok := w.see(ctx, func(c filesystemv1.FilesystemServiceClient) (err error) {
		got, err = w.list(ctx, c, w.dir)
		return err
	})
	switch {
	case !ok:
	case err != nil:
		w.run.fault(wrong, "%s list: %v", w.bucket.name, err)
	default:
		w.sameNames("listing", got.names(), w.tree.below(w.dir))
		for _, e := range got {
			if p := normal(e.GetPath()); w.tree.isFile(p) {
				w.compare("listing", p, nil, nil, e.GetRevision())
			}
		}
	}
}

func (w *worker) glob(ctx context.Context) {
	name := fileNames[w.rng.IntN(3)]
	var got entries
	err, ok := w.see(ctx, func(c filesystemv1.FilesystemServiceClient) error {
		ctx, cancel := context.WithTimeout(w.run.as(ctx, w.bucket, ""), callTimeout)
		defer cancel()
		page, err := c.Glob(ctx, &filesystemv1.GlobRequest{Pattern: "**/" + name, Path: w.dir})
		got = page.GetEntries()
		return err
	})
	if !ok {
		return
	}
	var want []string
	for _, p := range w.tree.below(w.dir) {
		// A directory may have been moved to a hidden name, which needs a pattern that names the dot.
		if strings.HasSuffix(p, "/"+name) && !strings.Contains(strings.TrimPrefix(p, w.dir), "/.") {
			want = append(want, p)
		}
	}
	if errdefs.ReasonOf(err) == "PATH_NOT_FOUND" && len(w.tree) == 0 {
		return
	}
	if err != nil {
		w.run.fault(wrong, "%s glob: %v", w.bucket.name, err)
		return
	}
	w.sameNames("glob", got.names(), want)
}

// grep searches the worker's part for what some of its files hold.
func (w *worker) grep(ctx context.Context) {
	needle := "needle-" + string('0'+byte(w.rng.IntN(10)))
	want := map[string]int{}
	total := 0
	for p, f := range w.tree {
		if strings.Contains(p, "/.") { // hidden names need a pattern that names the dot
			continue
		}
		if n := min(bytes.Count(f.content, []byte(needle+"\n")), 3); n > 0 {
			want[p] = n
			total += n
		}
	}
	var got map[string]int
	err, ok := w.see(ctx, func(c filesystemv1.FilesystemServiceClient) error {
		got = map[string]int{}
		ctx, cancel := context.WithTimeout(w.run.as(ctx, w.bucket, ""), callTimeout)
		defer cancel()
		stream, err := c.Grep(ctx, &filesystemv1.GrepRequest{Pattern: needle, Path: w.dir, MaxMatchesPerFile: 3, MaxMatches: 1000, IncludeIgnored: true})
		if err != nil {
			return err
		}
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
			if match := m.GetMatch(); match != nil {
				w.foreign("grep in "+match.GetPath(), []byte(match.GetText()))
				if p := normal(match.GetPath()); !strings.Contains(p, "/.") {
					got[p]++
				}
			}
		}
	})
	if !ok || (errdefs.ReasonOf(err) == "PATH_NOT_FOUND" && len(w.tree) == 0) {
		return
	}
	if err != nil {
		w.run.fault(wrong, "%s grep: %v", w.bucket.name, err)
		return
	}
	if total > 1000 {
		return
	}
	for p, n := range want {
		if got[p] != n {
			w.run.fault(lost, "%s grep for %s finds %d lines in %s, there are %d", w.bucket.name, needle, got[p], p, n)
		}
	}
	for p, n := range got {
		if want[p] == 0 {
			w.run.fault(wrong, "%s grep for %s finds %d lines in %s, there are none", w.bucket.name, needle, n, p)
		}
	}
}

// revisions reads a kept revision and looks whether the list has it.
func (w *worker) revisions(ctx context.Context) {
	p := w.pastPath()
	if p == "" {
		return
	}
	kept := w.past[p][len(w.past[p])-1]
	var got *filesystemv1.ListRevisionsResponse
	err, ok := w.see(ctx, func(c filesystemv1.FilesystemServiceClient) (err error) {
		ctx, cancel := context.WithTimeout(w.run.as(ctx, w.bucket, ""), callTimeout)
		defer cancel()
		got, err = c.ListRevisions(ctx, &filesystemv1.ListRevisionsRequest{Path: w.spelled(p)})
		return err
	})
	if !ok {
		return
	}
	listed := slices.ContainsFunc(got.GetRevisions(), func(r *filesystemv1.Revision) bool { return r.GetRevision() == kept.revision })
	if err != nil || !listed {
		w.run.fault(lost, "%s the revision %s of %s is not listed: %v", w.bucket.name, kept.revision, p, err)
		return
	}
	var content []byte
	err, ok = w.see(ctx, func(c filesystemv1.FilesystemServiceClient) (err error) {
		_, content, err = w.download(ctx, c, p, kept.revision)
		return err
	})
	if ok && (err != nil || !kept.same(content)) {
		w.run.fault(lost, "%s the revision %s of %s has %d bytes of %d: %v", w.bucket.name, kept.revision, p, len(content), len(kept.content), err)
	}
}
