package memory

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/index/pool"
)

// Freshness says how far an index has come.
type Freshness struct {
	Current      bool
	PendingFiles int
	PendingBytes int64
	SyncTime     time.Time
}

// stale is a file whose statements in the index are not the current ones.
type stale struct {
	file   File
	record File
}

// sync brings the index up to date with the files, whoever wrote them, and says how far it came. The revisions of the files are compared at every
// call: that is what makes an index of this replica agree with what another one wrote. The time bounds reading and indexing; zero: only the context does.
func (s *Service) sync(ctx context.Context, l *pool.Lease, key string, within time.Duration) (fresh Freshness, err error) {
	defer func() {
		if err != nil && !canceled(err) {
			s.status.set(key, func(st *keyStatus) { st.indexErr = errorText(err) })
		}
	}()
	if err := l.Lock(ctx); err != nil {
		return fresh, err
	}
	defer l.Unlock()
	started := s.now()
	todo, gone, err := s.compare(ctx, l)
	if err != nil {
		return fresh, err
	}
	if len(gone) > 0 {
		if err := s.drop(ctx, l, gone); err != nil {
			return fresh, err
		}
	}
	for i, st := range todo {
		if within > 0 && i > 0 && s.now().Sub(started) > within {
			fresh.PendingFiles = len(todo) - i
			for _, later := range todo[i:] {
				fresh.PendingBytes += later.file.Size
			}
			break
		}
		if err := s.indexFile(ctx, l, st); err != nil {
			return fresh, err
		}
	}
	fresh.Current = fresh.PendingFiles == 0
	fresh.SyncTime = started
	s.status.set(key, func(st *keyStatus) { st.synced, st.pending = started, fresh.PendingFiles })
	return fresh, nil
}

// compare lists the files and finds those that the index does not know as they are, newest first, and sources that are no files any more.
func (s *Service) compare(ctx context.Context, ix index.Index) (todo []stale, gone []string, err error) {
	files, err := s.memoryFiles(ctx)
	if err != nil {
		return nil, nil, err
	}
	known, err := ix.Revisions(ctx)
	if err != nil {
		return nil, nil, err
	}
	for path, f := range files {
		if !isMemory(path) {
			continue
		}
		record := files[recordPath(path)]
		if known[path] != revisionOf(f, record) {
			todo = append(todo, stale{f, record})
		}
	}
	for path := range known {
		if _, ok := files[path]; !ok {
			gone = append(gone, path)
		}
	}
	// What was written last is what is asked for first: MEMORY.md, then the ledgers from today backwards.
	slices.SortFunc(todo, func(a, b stale) int {
		if first := a.file.Path == memoryFile; first != (b.file.Path == memoryFile) {
			if first {
				return -1
			}
			return 1
		}
		return strings.Compare(b.file.Path, a.file.Path)
	})
	return todo, gone, nil
}

// memoryFiles gives the files of the memory by path, hidden ones included.
func (s *Service) memoryFiles(ctx context.Context) (map[string]File, error) {
	listed, err := s.files.List(ctx, memoryDir)
	if err != nil {
		return nil, err
	}
	files := make(map[string]File, len(listed)+1)
	for _, f := range listed {
		files[f.Path] = f
	}
	switch f, err := s.files.Stat(ctx, memoryFile); {
	case err == nil:
		files[memoryFile] = f
	case !errors.Is(err, ErrNoFile):
		return nil, err
	}
	return files, nil
}

// revisionOf is the revision of a source: that of the file and of its records.
func revisionOf(file, record File) string {
	clean := strings.NewReplacer("\n", " ", "|", " ")
	return clean.Replace(file.Revision) + "|" + clean.Replace(record.Revision)
}

// drop removes sources and their documents.
func (s *Service) drop(ctx context.Context, ix index.Index, names []string) error {
	b := index.Batch{Sources: map[string]*index.Source{}}
	for _, name := range names {
		old, _, err := ix.Source(ctx, name)
		if err != nil {
			return err
		}
		for id := range old.Docs {
			b.Delete = append(b.Delete, id)
		}
		b.Sources[name] = nil
	}
	return ix.Apply(ctx, b)
}

// indexFile reads one file and changes in the index what changed in the file.
func (s *Service) indexFile(ctx context.Context, ix index.Index, st stale) error {
	content, info, err := s.files.Read(ctx, st.file.Path)
	if errors.Is(err, ErrNoFile) {
		return s.drop(ctx, ix, []string{st.file.Path})
	}
	if err != nil {
		return err
	}
	// Records are written before the lines that they are about, so what is read after the file has them all.
	var records []Record
	var recordInfo File
	if st.record.Path != "" {
		if records, recordInfo, err = s.readRecords(ctx, st.file.Path); err != nil {
			return err
		}
	}
	all, err := docs(st.file.Path, s.statements(st.file.Path, string(content), records, info.ModTime))
	if err != nil {
		return err
	}
	old, _, err := ix.Source(ctx, st.file.Path)
	if err != nil {
		return err
	}
	next := &index.Source{Revision: revisionOf(info, recordInfo), Docs: make(map[string]string, len(all))}
	b := index.Batch{Sources: map[string]*index.Source{st.file.Path: next}}
	for i := range all {
		print, err := fingerprint(&all[i])
		if err != nil {
			return err
		}
		next.Docs[all[i].ID] = print
		if old.Docs[all[i].ID] != print {
			b.Put = append(b.Put, all[i])
		}
	}
	for id := range old.Docs {
		if _, ok := next.Docs[id]; !ok {
			b.Delete = append(b.Delete, id)
		}
	}
	return ix.Apply(ctx, b)
}
