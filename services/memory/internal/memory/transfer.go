package memory

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/memory/internal/markdown"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

const (
	transferVersion = 1
	// partBytes bounds the text in one line of an export.
	partBytes = 64 << 10
	// maxImportBytes bounds an import.
	maxImportBytes = 256 << 20
)

// transferLine is one line of an export.
type transferLine struct {
	// Type is "header", "file" or "record".
	Type    string `json:"type"`
	Version int    `json:"version,omitempty"`
	Path    string `json:"path,omitempty"`
	// Content is the next part of a file. The parts of one file follow each other.
	Content string  `json:"content,omitempty"`
	Record  *Record `json:"record,omitempty"`
}

// Exported counts what an export holds.
type Exported struct {
	Facts, Files int
	SHA256       string
}

// Export gives all memory of the bucket as lines of JSON, each with its line feed.
func (s *Service) Export(ctx context.Context, versions bool, yield func(line string) error) (e Exported, err error) {
	if _, err := callOf(ctx); err != nil {
		return e, err
	}
	sum := sha256.New()
	put := func(l transferLine) error {
		data, err := json.Marshal(l)
		if err != nil {
			return fmt.Errorf("memory: export: %w", err)
		}
		data = append(data, '\n')
		sum.Write(data)
		return yield(string(data))
	}
	if err := put(transferLine{Type: "header", Version: transferVersion}); err != nil {
		return e, err
	}
	files, err := s.memoryFiles(ctx)
	if err != nil {
		return e, err
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		kept := isMemory(path) || path == stateFile || versions && versionName.MatchString(path)
		if !kept {
			continue
		}
		n, err := s.exportFile(ctx, path, put)
		if err != nil {
			return e, err
		}
		e.Files++
		e.Facts += n
	}
	e.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return e, nil
}

// exportFile writes a file and its records, and counts its statements.
func (s *Service) exportFile(ctx context.Context, path string, put func(transferLine) error) (facts int, err error) {
	data, _, err := s.files.Read(ctx, path)
	if err != nil {
		return 0, err
	}
	content := strings.ToValidUTF8(string(data), "\uFFFD")
	rest := content
	for first := true; first || rest != ""; first = false {
		part := text.Clip(rest, partBytes)
		rest = rest[len(part):]
		if err := put(transferLine{Type: "file", Path: path, Content: part}); err != nil {
			return 0, err
		}
	}
	if !isMemory(path) {
		return 0, nil
	}
	records, _, err := s.readRecords(ctx, path)
	if err != nil {
		return 0, err
	}
	for i := range records {
		if err := put(transferLine{Type: "record", Path: path, Record: &records[i]}); err != nil {
			return 0, err
		}
	}
	return len(markdown.Parse(content)), nil
}

// Imported counts what an import did.
type Imported struct {
	Added, Duplicates, Files int
	Cursor                   string
}

// imported is one file of an import.
type imported struct {
	content strings.Builder
	records []Record
}

// Import adds what Export gave. Everything is read and checked before anything is written.
func (s *Service) Import(ctx context.Context, next func() (lines string, more bool, err error)) (r Imported, err error) {
	c, err := callOf(ctx)
	if err != nil {
		return r, err
	}
	files, err := readImport(next)
	if err != nil {
		return r, err
	}
	for _, locks := range []*keyedLocks{&s.consolidating, &s.saving} {
		unlock, err := locks.lock(ctx, c.bucket.Key())
		if err != nil {
			return r, err
		}
		defer unlock()
	}
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if err := s.importFile(ctx, c, path, files[path], &r); err != nil {
			return r, err
		}
	}
	return r, nil
}

// readImport reads and checks every line.
func readImport(next func() (string, bool, error)) (map[string]*imported, error) {
	files := map[string]*imported{}
	number, size, rest := 0, 0, ""
	bad := func(problem string) error {
		return invalid(ReasonImportInvalid, "line %d of the import: %s", number, problem).With("line", fmt.Sprint(number)).With("problem", problem)
	}
	take := func(line string) error {
		number++
		var l transferLine
		switch err := json.Unmarshal([]byte(line), &l); {
		case err != nil:
			return bad("no JSON")
		case number == 1 && (l.Type != "header" || l.Version != transferVersion):
			return bad("no header of version 1")
		case number == 1:
			return nil
		case !isMemory(l.Path) && l.Path != stateFile && !versionName.MatchString(l.Path):
			return bad("a path that is no memory file")
		}
		f := files[l.Path]
		if f == nil {
			f = &imported{}
			files[l.Path] = f
		}
		switch {
		case l.Type == "file":
			f.content.WriteString(l.Content)
		case l.Type == "record" && l.Record != nil && isMemory(l.Path):
			f.records = append(f.records, *l.Record)
		default:
			return bad("unknown type")
		}
		return nil
	}
	for {
		lines, more, err := next()
		if err != nil {
			return nil, err
		}
		if size += len(lines); size > maxImportBytes {
			return nil, errdefs.New(errdefs.ErrResourceExhausted, Domain, ReasonImportInvalid, "the import is larger than %d bytes", maxImportBytes)
		}
		rest += lines
		for {
			line, after, ok := strings.Cut(rest, "\n")
			if !ok {
				break
			}
			rest = after
			if err := take(line); err != nil {
				return nil, err
			}
		}
		if !more {
			break
		}
	}
	if rest != "" {
		number++
		return nil, bad("the last line is not whole")
	}
	if number == 0 {
		return nil, bad("no header of version 1")
	}
	return files, nil
}

// importFile writes a file that is not there, and adds to one that is what it lacks.
func (s *Service) importFile(ctx context.Context, c call, path string, f *imported, r *Imported) error {
	current, info, err := s.files.Read(ctx, path)
	missing := errors.Is(err, ErrNoFile)
	if err != nil && !missing {
		return err
	}
	units := markdown.Parse(f.content.String())
	if !isMemory(path) {
		units = nil
	}
	if missing {
		var changes []Change
		if len(f.records) > 0 {
			records, err := encodeRecords(f.records)
			if err != nil {
				return err
			}
			changes = append(changes, Change{Path: recordPath(path), Content: records})
		}
		changes = append(changes, Change{Path: path, Content: []byte(f.content.String()), Condition: IfMissing})
		cursor, err := s.files.Write(ctx, effect.Derive(c.id.Effect, "memory.import/"+path), changes)
		if err != nil {
			return err
		}
		r.Added, r.Files, r.Cursor = r.Added+len(units), r.Files+1, cursor
		return nil
	}
	there := map[string]bool{}
	known, _, err := s.readRecords(ctx, path)
	if err != nil {
		return err
	}
	for _, st := range s.statements(path, string(current), known, info.ModTime) {
		there[st.Hash], there[contentHash(st.Text)] = true, true
	}
	var lines strings.Builder
	var records []Record
	for _, st := range s.statements(path, f.content.String(), f.records, info.ModTime) {
		if !isMemory(path) {
			break
		}
		if there[st.Hash] || there[contentHash(st.Text)] {
			r.Duplicates++
			continue
		}
		r.Added++
		lines.WriteString(markdown.Item(markdown.Normalize(st.Text)))
		if st.recorded {
			records = append(records, st.Record)
		}
	}
	if lines.Len() == 0 {
		return nil
	}
	return s.appendImported(ctx, c, path, lines.String(), records, r)
}

func (s *Service) appendImported(ctx context.Context, c call, path, lines string, records []Record, r *Imported) error {
	data, err := encodeRecords(records)
	if err != nil {
		return err
	}
	if len(records) > 0 {
		if _, err := s.files.Append(ctx, effect.Derive(c.id.Effect, "memory.import.records/"+path), recordPath(path), data); err != nil {
			return err
		}
	}
	r.Cursor, err = s.files.Append(ctx, effect.Derive(c.id.Effect, "memory.import.lines/"+path), path, []byte("\n"+lines))
	r.Files++
	return err
}
