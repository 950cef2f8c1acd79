package files

import (
	"context"
	"errors"
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
	page := versionPage{size: size, request: []string{"versions", string(v.space), p.Key()}}
	begin, err := fsops.PageAfter(token, page.request...)
	if err != nil {
		return Versions{}, err
	}
	after := ""
	switch kind := begin[:min(1, len(begin))]; kind {
	case "":
		err = v.versionNow(ctx, p, &page)
	case afterDeletion:
		after = begin[1:]
		err = v.versionKept(ctx, p, after, &page)
	default:
		after = begin[1:]
	}
	if err != nil {
		return Versions{}, err
	}
	page.last = afterRevision + after
	kept, more, err := v.own.Revisions(ctx, p, after, size)
	if err != nil {
		return Versions{}, err
	}
	for _, n := range kept {
		gone := Version{Entry: Entry{Node: Node{Path: n.Path}, Layer: LayerBucket}, Deleted: true, Time: n.Replaced}
		if n.Removed && !page.add(gone, afterDeletion+n.Revision) || !page.add(versionOf(n), afterRevision+n.Revision) {
			return page.out, nil
		}
	}
	if more {
		page.out.Next = page.token()
	}
	if begin == "" && len(page.out.Versions) == 0 {
		return Versions{}, fsops.ErrNotFound(p.String())
	}
	return page.out, nil
}

// versionPage collects a page of a history.
type versionPage struct {
	out     Versions
	size    int
	last    string // the place up to which it goes
	request []string
}

// add adds a version, unless the page is full: then the next one begins after the last place.
func (p *versionPage) add(v Version, place string) bool {
	if len(p.out.Versions) == p.size {
		p.out.Next = p.token()
		return false
	}
	p.out.Versions, p.last = append(p.out.Versions, v), place
	return true
}

func (p *versionPage) token() string { return fsops.PageToken(p.last, p.request...) }

// versionNow adds the version that is seen, if a file is.
func (v *View) versionNow(ctx context.Context, p fsops.Path, page *versionPage) error {
	at, err := v.resolve(ctx, v.own, p)
	if err != nil || at.entry.Kind != KindFile {
		return err
	}
	e, err := v.withSum(ctx, at)
	if errors.Is(err, ErrChanged) { // it is another one by now; what was found is still a version
		e, err = at.entry, nil
	}
	page.add(Version{Entry: e, Time: e.ModTime}, "")
	return err
}

// versionKept adds a kept version whose deletion ended the page before.
func (v *View) versionKept(ctx context.Context, p fsops.Path, revision string, page *versionPage) error {
	n, err := v.own.Revision(ctx, p, revision)
	if err == nil && n.Replaced.IsZero() {
		err = fsops.ErrTokenInvalid("page_token")
	}
	page.add(versionOf(n), "")
	return err
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
