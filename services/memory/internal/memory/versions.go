package memory

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
)

const versionTime = "20060102T150405.000"

var versionName = regexp.MustCompile(`^memory/\.versions/(\d{8}T\d{9}Z-[0-9a-f]{8})\.md$`)

// Version is one kept version of MEMORY.md.
type Version struct {
	ID   string
	Time time.Time
	File File
}

// versionID names a version by when it was put away and by its content.
func versionID(at time.Time, content string) string {
	return strings.Replace(at.UTC().Format(versionTime), ".", "", 1) + "Z-" + hashOf(content)[:8]
}

func versionPath(id string) string { return versionDir + "/" + id + ".md" }

// keepVersion puts a version away.
func keepVersion(id, content string) Change {
	return Change{Path: versionPath(id), Content: []byte(content), Condition: Always}
}

// pruneVersions deletes the oldest versions beyond the setting. What can't be deleted now is deleted another time.
func (s *Service) pruneVersions(ctx context.Context) {
	versions, err := s.ListVersions(ctx)
	for i := s.opts.Versions; i < len(versions) && err == nil; i++ {
		err = s.files.Delete(ctx, versions[i].File.Path)
	}
	if err != nil {
		s.log.WarnContext(ctx, "old versions are kept", "error", err)
	}
}

// ListVersions gives the kept versions, newest first.
func (s *Service) ListVersions(ctx context.Context) ([]Version, error) {
	if _, err := callOf(ctx); err != nil {
		return nil, err
	}
	files, err := s.files.List(ctx, versionDir)
	if err != nil {
		return nil, err
	}
	var out []Version
	for _, f := range files {
		m := versionName.FindStringSubmatch(f.Path)
		if m == nil {
			continue
		}
		digits, _, _ := strings.Cut(m[1], "Z-")
		at, err := time.Parse(versionTime, digits[:15]+"."+digits[15:])
		if err != nil {
			continue
		}
		out = append(out, Version{ID: m[1], Time: at, File: f})
	}
	slices.SortFunc(out, func(a, b Version) int { return strings.Compare(b.ID, a.ID) })
	return out, nil
}

// Restored is the outcome of a restore.
type Restored struct{ Revision, Previous, Cursor string }

// RestoreVersion makes a kept version the current MEMORY.md.
func (s *Service) RestoreVersion(ctx context.Context, id, ifRevision string) (r Restored, err error) {
	c, err := callOf(ctx)
	if err != nil {
		return r, err
	}
	unlock, err := s.consolidating.lock(ctx, c.bucket.Key())
	if err != nil {
		return r, err
	}
	defer unlock()
	content, _, err := s.files.Read(ctx, versionPath(id))
	if errors.Is(err, ErrNoFile) {
		return r, notFound(ReasonVersionNotFound, "there is no version %s", id).With("version_id", id)
	}
	if err != nil {
		return r, err
	}
	doc, err := s.readMemory(ctx)
	if err != nil {
		return r, err
	}
	conflict := func(revision string) error {
		return errdefs.New(errdefs.ErrAborted, Domain, ReasonRevisionConflict, "%s has changed", memoryFile).With("path", memoryFile).With("revision", revision)
	}
	if ifRevision != "" && ifRevision != doc.info.Revision {
		return r, conflict(doc.info.Revision)
	}
	var changes []Change
	if doc.info.Revision != "" {
		r.Previous = versionID(s.now(), doc.content)
		changes = append(changes, keepVersion(r.Previous, doc.content))
	}
	condition, revision := guard(doc.info)
	changes = append(changes, Change{Path: memoryFile, Content: content, Condition: condition, Revision: revision})
	r.Cursor, err = s.files.Write(ctx, effect.Derive(doc.effect, "memory.restore/"+id), changes)
	if errors.Is(err, ErrChanged) {
		return r, conflict("")
	}
	if err != nil {
		return r, err
	}
	info, err := s.files.Stat(ctx, memoryFile)
	r.Revision = info.Revision
	return r, err
}

// overflowChanges adds what leaves MEMORY.md to the overflow file of the month, unless it is there.
func (s *Service) overflowChanges(ctx context.Context, out []moved, next state) ([]Change, error) {
	path := overflowPath(next.RunTime)
	content, info, err := s.files.Read(ctx, path)
	if err != nil && !errors.Is(err, ErrNoFile) {
		return nil, err
	}
	records, recordInfo, err := s.readRecords(ctx, path)
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, u := range markdown.Parse(string(content)) {
		there[contentHash(u.Text)] = true
	}
	var b strings.Builder
	b.Write(content)
	if len(content) == 0 {
		b.WriteString("# Memories that " + memoryFile + " has no room for\n")
	}
	first := true
	for _, m := range out {
		statement := markdown.Normalize(m.text)
		if there[contentHash(statement)] {
			continue
		}
		if first {
			fmt.Fprintf(&b, "\n## %s\n\n", next.RunTime.Format("2006-01-02 15:04 -07:00"))
			first = false
		}
		there[contentHash(statement)] = true
		rec := m.record
		if rec.Line = contentHash(statement); rec.Line == rec.Hash {
			rec.Line = ""
		}
		records = append(records, rec)
		b.WriteString(markdown.Item(statement))
	}
	if first {
		return nil, nil
	}
	data, err := encodeRecords(records)
	if err != nil {
		return nil, err
	}
	recordCondition, recordRevision := guard(recordInfo)
	condition, revision := guard(info)
	return []Change{
		{Path: recordPath(path), Content: data, Condition: recordCondition, Revision: recordRevision},
		{Path: path, Content: []byte(b.String()), Condition: condition, Revision: revision},
	}, nil
}
