package files

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Version is one entry of the history of a path.
type Version struct {
	// Entry is the file of that version; only its path is set for a deletion.
	Entry Entry
	// Deleted says that the path held nothing from Time on.
	Deleted bool
	// Time when the version was written, or the file deleted.
	Time time.Time
}

// Versions is one page of a history.
type Versions struct {
	Versions []Version
	Next     string // token of the next page, "" on the last
}

// Places in a history: a page begins after a revision, or after the deletion that ended one.
const (
	afterRevision = "r"
	afterDeletion = "d"
)

// Versions returns a page of the history of a path, newest first: what is seen now, then what the bucket kept. Of a lower layer only the version that is seen now is known.
// PATH_NOT_FOUND when nothing is seen and nothing kept.
func (v *View) Versions(ctx context.Context, p fsops.Path, size int, token string) (Versions, error) {
	request := []string{"versions", string(v.space), p.Key()}
	place, err := fsops.PageAfter(token, request...)
	if err != nil {
		return Versions{}, err
	}
	var out Versions
	var deletionShown string // of this revision
	after := ""
	switch {
	case place == "":
		at, err := v.resolve(ctx, v.own, p)
		if err != nil {
			return Versions{}, err
		}
		if at.entry.Kind == KindFile {
			e, err := v.withSum(ctx, at)
			if err != nil && !errors.Is(err, ErrChanged) {
				return Versions{}, err
			} else if err != nil {
				e = at.entry
			}
			out.Versions = append(out.Versions, Version{Entry: e, Time: e.ModTime})
		}
		after = ""
	case strings.HasPrefix(place, afterDeletion):
		deletionShown = place[1:]
		n, err := v.own.Revision(ctx, p, deletionShown)
		if err != nil {
			return Versions{}, err
		}
		if !n.Exists() || n.Replaced.IsZero() {
			return Versions{}, fsops.ErrTokenInvalid("page_token")
		}
		out.Versions = append(out.Versions, versionOf(n))
		after = deletionShown
	default:
		after = place[1:]
	}
	kept, more, err := v.own.Revisions(ctx, p, after, size)
	if err != nil {
		return Versions{}, err
	}
	last := afterRevision + after
	for _, n := range kept {
		if n.Removed {
			if len(out.Versions) == size {
				out.Next = fsops.PageToken(last, request...)
				return out, nil
			}
			out.Versions = append(out.Versions, Version{Entry: Entry{Node: Node{Path: n.Path}, Layer: LayerBucket}, Deleted: true, Time: n.Replaced})
			last = afterDeletion + n.Revision
		}
		if len(out.Versions) == size {
			out.Next = fsops.PageToken(last, request...)
			return out, nil
		}
		out.Versions = append(out.Versions, versionOf(n))
		last = afterRevision + n.Revision
	}
	if more {
		out.Next = fsops.PageToken(last, request...)
	}
	if place == "" && len(out.Versions) == 0 {
		return Versions{}, fsops.ErrNotFound(p.String())
	}
	return out, nil
}

func versionOf(n Node) Version {
	return Version{Entry: Entry{Node: n, Layer: LayerBucket}, Time: n.ModTime}
}

// revision finds a revision of a file: the one that is seen, or one that the bucket kept. It returns the tree that has its content.
func (v *View) revision(ctx context.Context, own Own, p fsops.Path, revision string) (Entry, Tree, error) {
	at, err := v.resolve(ctx, own, p)
	if err != nil {
		return Entry{}, nil, err
	}
	if at.entry.Kind == KindFile && at.entry.Revision == revision {
		return at.entry, at.tree, nil
	}
	n, err := own.Revision(ctx, p, revision)
	if err != nil {
		return Entry{}, nil, err
	}
	if n.Kind != KindFile || revision == "" {
		return Entry{}, nil, fsops.ErrRevisionNotKept(p.String(), revision)
	}
	return Entry{Node: n, Layer: LayerBucket}, own, nil
}

// OpenRevision returns one revision of a file and its content; revision "" is [View.Open]. REVISION_NOT_KEPT when it is gone. Close the content.
func (v *View) OpenRevision(ctx context.Context, p fsops.Path, revision string) (Entry, Content, error) {
	if revision == "" {
		return v.Open(ctx, p)
	}
	const tries = 5
	for try := 1; ; try++ {
		e, tree, err := v.revision(ctx, v.own, p, revision)
		if err != nil {
			return Entry{}, nil, err
		}
		content, err := tree.Open(ctx, e.Node)
		if err == nil {
			return e, content, nil
		}
		if !errors.Is(err, ErrChanged) {
			return Entry{}, nil, err
		}
		if try == tries {
			return Entry{}, nil, fsops.ErrRevisionNotKept(p.String(), revision)
		}
	}
}

// Restored is the outcome of a restore.
type Restored struct {
	Entry  Entry
	Cursor string
}

// Restore makes a revision of a file the current one, as a new revision of the bucket; also where the file was deleted. current "" expects no certain revision now. Whiteouts stay:
// the bucket's own file is above them.
func (v *View) Restore(ctx context.Context, call Call, p fsops.Path, revision, current string) (Restored, error) {
	return update(ctx, v, call, func(out *Restored, c Cursor) { out.Cursor = c.String() }, func(ctx context.Context, tx Tx) (Restored, error) {
		at, err := v.resolve(ctx, tx, p)
		if err != nil {
			return Restored{}, err
		}
		if current != "" {
			if err := at.mustHave(current); err != nil {
				return Restored{}, err
			}
		}
		if err := at.mayWrite(Write{Path: p}); err != nil {
			return Restored{}, err
		}
		e, tree, err := v.revision(ctx, tx, p, revision)
		if err != nil {
			return Restored{}, err
		}
		content, err := tree.Open(ctx, e.Node)
		if errors.Is(err, ErrChanged) {
			err = fsops.ErrRevisionNotKept(p.String(), revision)
		}
		if err != nil {
			return Restored{}, err
		}
		defer content.Close()
		staged, err := v.store.Stage(ctx, NewReader(ctx, content, 0), v.limits.FileBytes)
		if err != nil {
			return Restored{}, err
		}
		defer staged.Discard()
		to := at.path
		if !at.entry.Exists() {
			to = e.Path // as it was spelled
		}
		node, err := v.put(ctx, tx, File{Path: to, Content: staged, Mode: e.Node.Mode, Author: call.Author})
		return Restored{Entry: at.written(node)}, err
	})
}

// MaxDiffBytes bounds each of two versions that are compared.
const MaxDiffBytes = 16 << 20

// Diff is what two versions of a file differ in.
type Diff struct {
	Text      string
	Truncated bool
	Equal     bool
}

// Diff compares two revisions of a file as a unified diff of at most limit bytes. to "" is the current one, from "" the kept one that to replaced.
func (v *View) Diff(ctx context.Context, p fsops.Path, from, to string, context, limit int) (Diff, error) {
	newer, after, err := v.readRevision(ctx, p, to)
	if err != nil {
		return Diff{}, err
	}
	if from == "" {
		begin := ""
		if !newer.Replaced.IsZero() {
			begin = newer.Revision
		}
		kept, _, err := v.own.Revisions(ctx, p, begin, 1)
		if err != nil {
			return Diff{}, err
		}
		if len(kept) == 0 {
			return Diff{}, fsops.ErrRevisionNotKept(p.String(), "")
		}
		from = kept[0].Revision
	}
	_, before, err := v.readRevision(ctx, p, from)
	if err != nil {
		return Diff{}, err
	}
	out := Diff{Equal: string(before) == string(after)}
	out.Text, out.Truncated = fsops.Unified(newer.Path.String(), before, after, context, limit)
	return out, nil
}

func (v *View) readRevision(ctx context.Context, p fsops.Path, revision string) (Entry, []byte, error) {
	e, content, err := v.OpenRevision(ctx, p, revision)
	if err != nil {
		return Entry{}, nil, err
	}
	defer content.Close()
	data, err := readAll(ctx, content, MaxDiffBytes)
	return e, data, err
}
