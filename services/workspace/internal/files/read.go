package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strconv"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// Stat describes one path, with the SHA-256 of a file.
func (v *View) Stat(ctx context.Context, p fsops.Path) (Entry, error) {
	at, err := v.see(ctx, p)
	if err != nil {
		return Entry{}, err
	}
	return v.withSum(ctx, at)
}

// Summed is the entry with its SHA-256, which listings of some trees leave out. ErrChanged when the file is another one by now.
func (v *View) Summed(ctx context.Context, e Entry) (Entry, error) {
	return v.withSum(ctx, place{entry: e, tree: v.treeOf(e.Layer)})
}

// withSum adds the SHA-256 to the entry of a file whose tree does not keep it.
func (v *View) withSum(ctx context.Context, at place) (Entry, error) {
	e := at.entry
	if e.Kind != KindFile || e.SHA256 != "" {
		return e, nil
	}
	content, err := at.tree.Open(ctx, e.Node)
	if err != nil {
		return Entry{}, err
	}
	defer content.Close()
	h := sha256.New()
	if _, err := io.Copy(h, NewReader(ctx, content, 0)); err != nil {
		return Entry{}, err
	}
	e.SHA256 = hex.EncodeToString(h.Sum(nil))
	return e, nil
}

// Listing is one page of entries.
type Listing struct {
	Entries  []Entry
	Next     string // token of the next page, "" on the last
	Warnings []string
}

// List returns a page of a directory; with deep, of everything below it.
func (v *View) List(ctx context.Context, dir fsops.Path, deep bool, size int, token string) (Listing, error) {
	return v.ListOf(ctx, dir, deep, size, token, func(Entry) bool { return true })
}

// ListOf is List for the entries that keep accepts. Tokens of both are alike.
func (v *View) ListOf(ctx context.Context, dir fsops.Path, deep bool, size int, token string, keep func(Entry) bool) (Listing, error) {
	request := []string{"list", string(v.space), dir.Key(), strconv.FormatBool(deep)}
	after, err := fsops.PageAfter(token, request...)
	if err != nil {
		return Listing{}, err
	}
	at, err := v.seeDir(ctx, dir)
	if err != nil {
		return Listing{}, err
	}
	m := v.merge(v.own, at, deep, after)
	return m.page(ctx, size, request, keep)
}

func (v *View) seeDir(ctx context.Context, dir fsops.Path) (place, error) {
	at, err := v.see(ctx, dir)
	if err == nil && at.entry.Kind != KindDir {
		err = fsops.ErrNotADirectory(dir.String(), dir.String())
	}
	return at, err
}

// maxPageBytes bounds the paths of a page, so that it fits a message whatever their length.
const maxPageBytes = 4 << 20

// page collects a page of what passes keep.
func (m *merge) page(ctx context.Context, size int, request []string, keep func(Entry) bool) (Listing, error) {
	var out Listing
	bytes := 0
	for {
		e, ok, err := m.next(ctx)
		if err != nil {
			return Listing{}, err
		}
		if !ok {
			break
		}
		if !keep(e) {
			continue
		}
		if n := len(out.Entries); n == size || bytes > maxPageBytes {
			out.Next = fsops.PageToken(out.Entries[n-1].Path.Key(), request...)
			break
		}
		out.Entries = append(out.Entries, e)
		bytes += len(e.Path.String())
	}
	out.Warnings = m.warnings
	return out, nil
}

// Open returns a file and its content. Close the content.
func (v *View) Open(ctx context.Context, p fsops.Path) (Entry, Content, error) {
	const tries = 5
	for try := 1; ; try++ {
		at, err := v.resolve(ctx, prefetch(v.own), p)
		if err == nil {
			err = at.mustExist(p)
		}
		if err != nil {
			return Entry{}, nil, err
		}
		if at.entry.Kind == KindDir {
			return Entry{}, nil, fsops.ErrIsDirectory(p.String())
		}
		content, err := at.tree.Open(ctx, at.entry.Node)
		if err == nil {
			return at.entry, content, nil
		}
		if !errors.Is(err, ErrChanged) || try == tries {
			return Entry{}, nil, err
		}
	}
}

// ReadAll returns a file and all of its content, which may have at most limit bytes; else it is TOO_LARGE.
func (v *View) ReadAll(ctx context.Context, p fsops.Path, limit int64) (Entry, []byte, error) {
	e, content, err := v.Open(ctx, p)
	if err != nil {
		return Entry{}, nil, err
	}
	defer content.Close()
	data, err := readAll(ctx, content, limit)
	return e, data, err
}

func readAll(ctx context.Context, content Content, limit int64) ([]byte, error) {
	if content.Size() > limit {
		return nil, fsops.ErrTooLarge(limit, content.Size())
	}
	data := make([]byte, content.Size())
	_, err := io.ReadFull(NewReader(ctx, content, 0), data)
	return data, err
}

// Usage returns what the bucket holds, and what it may hold.
func (v *View) Usage(ctx context.Context) (Usage, Limits, error) {
	u, err := v.store.Usage(ctx, v.space)
	return u, v.limits, err
}

// NewReader returns a reader of content from a byte position, which ends with ctx.
func NewReader(ctx context.Context, content Content, offset int64) io.Reader {
	return &contextReader{ctx: ctx, section: io.NewSectionReader(content, offset, content.Size()-offset)}
}

type contextReader struct {
	ctx     context.Context
	section *io.SectionReader
}

func (r *contextReader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.section.Read(p)
}
