package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"
	"google.golang.org/protobuf/proto"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// The kinds of events, as Watch names them.
const (
	written = "CHANGE_KIND_WRITTEN"
	deleted = "CHANGE_KIND_DELETED"
	moved   = "CHANGE_KIND_MOVED"
)

var (
	fileNames = []string{"one", "two.md", "Ä ö.txt", "..hidden", "con.txt", "%2e*[x]{a,b}", "x"}
	dirNames  = []string{"d", "D2", "x", "d/deep", "日本"}
)

// anyPath is a path in the worker's part; few enough that they meet.
func (w *worker) anyPath() string {
	name := fileNames[w.rng.IntN(len(fileNames))]
	if w.rng.IntN(3) == 0 {
		return w.dir + "/" + name
	}
	return w.dir + "/" + dirNames[w.rng.IntN(len(dirNames))] + "/" + name
}

// aFile is the path of a file that is there, or any path.
func (w *worker) aFile() string {
	if all := w.tree.below(w.dir); len(all) > 0 && w.rng.IntN(8) != 0 {
		return all[w.rng.IntN(len(all))]
	}
	return w.anyPath()
}

func (w *worker) aDir() string { return w.dir + "/" + dirNames[w.rng.IntN(len(dirNames))] }

// spelled is the path in one of its spellings: NFC and NFD name the same.
func (w *worker) spelled(p string) string {
	if w.rng.IntN(4) == 0 {
		return norm.NFD.String(p)
	}
	return p
}

// step does one operation.
func (w *worker) step(ctx context.Context) {
	type action struct {
		weight int
		do     func(context.Context)
	}
	actions := []action{
		{14, w.write}, {4, w.upload}, {8, w.edit}, {8, w.appendTo}, {6, w.moveFile}, {3, w.moveDir}, {6, w.deleteFile}, {2, w.deleteDir},
		{14, w.read}, {5, w.window}, {6, w.listing}, {4, w.glob}, {4, w.grep}, {3, w.stat},
		{6, w.log}, {3, w.raise}, {2, w.race},
	}
	if w.run.can.GetHistory() {
		actions = append(actions, action{4, w.restore}, action{2, w.revisions})
	}
	if w.run.can.GetChangeSets() {
		actions = append(actions, action{6, w.set})
	}
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	n := w.rng.IntN(total)
	for _, a := range actions {
		if n -= a.weight; n < 0 {
			a.do(ctx)
			return
		}
	}
}

// put is what writing a file does to a model.
func put(t tree, p string, content []byte, info *filesystemv1.FileInfo) []event {
	t[p] = file{content: content, revision: info.GetRevision()}
	return []event{{kind: written, path: p, revision: info.GetRevision()}}
}

// condition picks the mode of a write and says what it must come to.
func (w *worker) condition(p string) (mode filesystemv1.WriteMode, revision, want string) {
	want = w.tree.noTarget(p)
	switch w.rng.IntN(4) {
	case 0:
		if want != fsops.ReasonNotADirectory && (w.tree.isFile(p) || w.tree.isDir(p)) {
			want = fsops.ReasonPathExists
		}
		return filesystemv1.WriteMode_WRITE_MODE_CREATE, "", want
	case 1:
		revision = w.tree[p].revision
		if revision == "" || w.rng.IntN(4) == 0 {
			revision = "stale"
			if want == "" {
				want = fsops.ReasonRevisionConflict
			}
		}
		return filesystemv1.WriteMode_WRITE_MODE_IF_REVISION, revision, want
	}
	return filesystemv1.WriteMode_WRITE_MODE_OVERWRITE, "", want
}

func (w *worker) write(ctx context.Context) {
	p := w.anyPath()
	if w.rng.IntN(3) == 0 {
		p = w.aFile()
	}
	mode, revision, want := w.condition(p)
	req := &filesystemv1.WriteRequest{Path: w.spelled(p), Content: w.content(), Mode: mode, IfRevision: revision}
	w.do(ctx, change{
		name: "write " + p, want: want,
		call: func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error) {
			return c.Write(ctx, req)
		},
		apply: func(t tree, answer proto.Message) []event {
			got, _ := answer.(*filesystemv1.WriteResponse)
			return put(t, p, req.GetContent(), got.GetInfo())
		},
	})
}

func (w *worker) upload(ctx context.Context) {
	p := w.anyPath()
	mode, revision, want := w.condition(p)
	content := w.content()
	header := &filesystemv1.UploadHeader{Path: w.spelled(p), Mode: mode, IfRevision: revision}
	w.do(ctx, change{
		name: "upload " + p, want: want,
		call: func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error) {
			return upload(ctx, c, header, content)
		},
		apply: func(t tree, answer proto.Message) []event {
			got, _ := answer.(*filesystemv1.UploadResponse)
			return put(t, p, content, got.GetInfo())
		},
	})
}

// upload streams content in small pieces.
func upload(ctx context.Context, c filesystemv1.FilesystemServiceClient, header *filesystemv1.UploadHeader, content []byte) (*filesystemv1.UploadResponse, error) {
	stream, err := c.Upload(ctx)
	if err != nil {
		return nil, err
	}
	// An error of Send is the end of the stream; CloseAndRecv says why.
	if err := stream.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Header{Header: header}}); err == nil {
		for piece := range slices.Chunk(content, 30_000) {
			if err := stream.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Chunk{Chunk: piece}}); err != nil {
				break
			}
		}
	}
	return stream.CloseAndRecv()
}

func (w *worker) edit(ctx context.Context) {
	p := w.aFile()
	want := w.tree.noFile(p)
	// The first line ends in a full stop after a number that no other line has.
	first, _, _ := bytes.Cut(w.tree[p].content, []byte("\n"))
	old := string(first)
	if want == "" && w.rng.IntN(10) == 0 {
		old, want = "nowhere to be found", fsops.ReasonEditNoMatch
	}
	if old == "" {
		old = "anything"
	}
	text := fmt.Sprintf("%s worker %d version %d.", w.bucket.mark, w.number, w.n)
	req := &filesystemv1.EditRequest{Path: w.spelled(p), Replacements: []*filesystemv1.Replacement{{OldText: old, NewText: text}}}
	w.do(ctx, change{
		name: "edit " + p, want: want,
		call: func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error) {
			return c.Edit(ctx, req)
		},
		apply: func(t tree, answer proto.Message) []event {
			got, _ := answer.(*filesystemv1.EditResponse)
			return put(t, p, bytes.Replace(t[p].content, []byte(old), []byte(text), 1), got.GetInfo())
		},
	})
}

func (w *worker) appendTo(ctx context.Context) {
	p := w.aFile()
	if w.tree.isFile(p) && len(w.tree[p].content) > 1<<20 {
		return
	}
	req := &filesystemv1.AppendRequest{Path: w.spelled(p), Content: fmt.Appendf(nil, "%s worker %d added %d.\n", w.bucket.mark, w.number, w.n), EnsureNewline: true}
	w.do(ctx, change{
		name: "append " + p, want: w.tree.noTarget(p),
		call: func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error) {
			return c.Append(ctx, req)
		},
		apply: func(t tree, answer proto.Message) []event {
			got, _ := answer.(*filesystemv1.AppendResponse)
			return put(t, p, slices.Concat(t[p].content, req.GetContent()), got.GetInfo())
		},
	})
}

func (w *worker) moveFile(ctx context.Context) { w.move(ctx, w.aFile(), w.anyPath()) }

func (w *worker) moveDir(ctx context.Context) { w.move(ctx, w.aDir(), w.aDir()) }

func (w *worker) move(ctx context.Context, from, to string) {
	req := &filesystemv1.MoveRequest{FromPath: w.spelled(from), ToPath: to, Overwrite: w.rng.IntN(2) == 0}
	want, stays := w.tree.noMove(from, to, req.GetOverwrite())
	if stays {
		return // a change of spelling: storetest has it
	}
	w.do(ctx, change{
		name: "move " + from + " to " + to, want: want, parts: w.run.backend.spans(from, to),
		call: func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error) {
			return c.Move(ctx, req)
		},
		apply: func(t tree, answer proto.Message) []event {
			got, _ := answer.(*filesystemv1.MoveResponse)
			return rename(t, from, to, got.GetInfo().GetRevision())
		},
	})
}

// rename is what a move does to a model. The revision is that of a file that is moved.
func rename(t tree, from, to, revision string) []event {
	var events []event
	if f, ok := t[from]; ok {
		delete(t, from)
		t[to] = file{content: f.content, revision: revision}
		return []event{{kind: moved, path: to, from: from, revision: revision}}
	}
	for _, p := range t.below(from) {
		target := to + strings.TrimPrefix(p, from)
		t[target] = file{content: t[p].content}
		delete(t, p)
		events = append(events, event{kind: moved, path: target, from: p})
	}
	return events
}

func (w *worker) deleteFile(ctx context.Context) { w.delete(ctx, w.aFile(), w.rng.IntN(4) == 0) }

func (w *worker) deleteDir(ctx context.Context) { w.delete(ctx, w.aDir(), w.rng.IntN(3) != 0) }

func (w *worker) delete(ctx context.Context, p string, recursive bool) {
	req := &filesystemv1.DeleteRequest{Path: w.spelled(p), Recursive: recursive}
	want := w.tree.missing(p)
	if want == "" && w.tree.isDir(p) && !recursive {
		want = fsops.ReasonDirectoryNotEmpty
	}
	w.do(ctx, change{
		name: "delete " + p, want: want, parts: w.run.backend.spans(p),
		call: func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error) {
			return c.Delete(ctx, req)
		},
		apply: func(t tree, _ proto.Message) []event { return remove(t, p) },
	})
}

// remove is what a deletion does to a model.
func remove(t tree, p string) []event {
	gone := t.below(p)
	if t.isFile(p) {
		gone = []string{p}
	}
	var events []event
	for _, p := range gone {
		delete(t, p)
		events = append(events, event{kind: deleted, path: p})
	}
	return events
}

// restore brings back what a file held before.
func (w *worker) restore(ctx context.Context) {
	p := w.pastPath()
	if p == "" {
		return
	}
	kept := w.past[p][w.rng.IntN(len(w.past[p]))]
	req := &filesystemv1.RestoreRevisionRequest{Path: w.spelled(p), Revision: kept.revision}
	w.do(ctx, change{
		name: "restore " + p, want: w.tree.noTarget(p),
		call: func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error) {
			return c.RestoreRevision(ctx, req)
		},
		apply: func(t tree, answer proto.Message) []event {
			got, _ := answer.(*filesystemv1.RestoreRevisionResponse)
			return put(t, p, kept.content, got.GetInfo())
		},
	})
}

// pastPath is a path that held something else before.
func (w *worker) pastPath() string {
	var all []string
	for p := range w.past {
		all = append(all, p)
	}
	if len(all) == 0 {
		return ""
	}
	slices.Sort(all)
	return all[w.rng.IntN(len(all))]
}

// set applies several changes at once, sometimes with one that must not work: then nothing happens.
func (w *worker) set(ctx context.Context) {
	var changes []*filesystemv1.FileChange
	after := w.tree.clone()
	var steps []func(t tree, infos *[]*filesystemv1.FileInfo) []event
	for range 1 + w.rng.IntN(5) {
		p := w.anyPath()
		if w.rng.IntN(2) == 0 {
			p = w.aFile()
		}
		switch w.rng.IntN(3) {
		case 0:
			to := w.anyPath()
			if reason, stays := after.noMove(p, to, true); reason != "" || stays || after.isDir(p) {
				continue
			}
			changes = append(changes, &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Move{Move: &filesystemv1.MoveRequest{FromPath: p, ToPath: to, Overwrite: true}}})
			steps = append(steps, func(t tree, infos *[]*filesystemv1.FileInfo) []event { return rename(t, p, to, next(infos)) })
		case 1:
			if after.missing(p) != "" {
				continue
			}
			changes = append(changes, &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Delete{Delete: &filesystemv1.DeleteRequest{Path: p, Recursive: true}}})
			steps = append(steps, func(t tree, _ *[]*filesystemv1.FileInfo) []event { return remove(t, p) })
		default:
			if after.noTarget(p) != "" {
				continue
			}
			content := w.content()
			changes = append(changes, &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Write{Write: &filesystemv1.WriteRequest{Path: p, Content: content}}})
			steps = append(steps, func(t tree, infos *[]*filesystemv1.FileInfo) []event {
				return put(t, p, content, &filesystemv1.FileInfo{Revision: next(infos)})
			})
		}
		steps[len(steps)-1](after, &[]*filesystemv1.FileInfo{})
	}
	if len(changes) == 0 {
		return
	}
	want := ""
	if w.rng.IntN(4) == 0 {
		bad := w.dir + "/never"
		changes = append(changes, &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Delete{Delete: &filesystemv1.DeleteRequest{Path: bad}}})
		want = fsops.ReasonPathNotFound
	}
	req := &filesystemv1.ApplyChangesRequest{Changes: changes}
	w.do(ctx, change{
		name: fmt.Sprintf("set of %d changes", len(changes)), want: want, may: fsops.ReasonCapabilityMissing,
		call: func(ctx context.Context, c filesystemv1.FilesystemServiceClient) (proto.Message, error) {
			return c.ApplyChanges(ctx, req)
		},
		apply: func(t tree, answer proto.Message) []event {
			got, _ := answer.(*filesystemv1.ApplyChangesResponse)
			infos := got.GetInfos()
			var events []event
			for _, step := range steps {
				events = append(events, step(t, &infos)...)
			}
			return events
		},
	})
}

// next takes the revision of the next file of an answer, "" when there is none.
func next(infos *[]*filesystemv1.FileInfo) string {
	if len(*infos) == 0 {
		return ""
	}
	first := (*infos)[0]
	*infos = (*infos)[1:]
	return first.GetRevision()
}
