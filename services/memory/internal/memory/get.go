package memory

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/memory/internal/text"
)

const (
	// maxGetLines and maxGetBytes bound one answer.
	maxGetLines = 2000
	maxGetBytes = 256 << 10
)

// GetRequest asks for lines of a memory file, from 1, both ends included; 0 means the start, or as many as fit.
type GetRequest struct {
	Path       string
	Start, End int
	Facts      bool
}

// Line is one line.
type Line struct {
	Number int
	Text   string
	Fact   *Fact
}

// GetResult is lines of a file.
type GetResult struct {
	Path     string
	Lines    []Line
	Total    int
	More     bool
	Revision string
	Tokens   int
}

// Get reads lines of a memory file.
func (s *Service) Get(ctx context.Context, req GetRequest) (r GetResult, err error) {
	if _, err := callOf(ctx); err != nil {
		return r, err
	}
	if r.Path, err = memoryPath(req.Path); err != nil {
		return r, err
	}
	content, info, err := s.files.Read(ctx, r.Path)
	if errors.Is(err, ErrNoFile) {
		return r, notFound(ReasonFileNotFound, "there is no memory file %s", clipped(r.Path)).With("path", r.Path)
	}
	if err != nil {
		return r, err
	}
	r.Revision = info.Revision
	lines := strings.Split(strings.ToValidUTF8(strings.TrimSuffix(string(content), "\n"), "\uFFFD"), "\n")
	if len(content) == 0 {
		lines = nil
	}
	r.Total = len(lines)
	start := max(req.Start, 1)
	if start > max(r.Total, 1) {
		total := strconv.Itoa(r.Total)
		return r, outOfRange("%s has %s lines; line %d was asked for", r.Path, total, start).
			With("path", r.Path).With("start_line", strconv.Itoa(start)).With("total_lines", total)
	}
	facts := map[int]*Fact{}
	if req.Facts {
		if facts, err = s.factsByLine(ctx, r.Path, string(content), info.ModTime); err != nil {
			return r, err
		}
	}
	size := 0
	for n := start; n <= r.Total && (req.End == 0 || n <= req.End); n++ {
		line := strings.TrimSuffix(lines[n-1], "\r")
		size += len(line) + 1
		if len(r.Lines) > 0 && (size > maxGetBytes || len(r.Lines) == maxGetLines) {
			break
		}
		r.Lines = append(r.Lines, Line{Number: n, Text: line, Fact: facts[n]})
		r.Tokens += text.EstimateTokens(line + "\n")
	}
	r.More = start+len(r.Lines) <= r.Total
	return r, nil
}

// memoryPath checks and cleans a path; empty means MEMORY.md.
func memoryPath(p string) (string, error) {
	if p == "" {
		return memoryFile, nil
	}
	parsed, err := fsops.ParsePath(p)
	if err != nil {
		return "", err
	}
	if clean := parsed.String(); isMemory(clean) {
		return clean, nil
	}
	return "", invalid(ReasonPathNotMemory, "%q is no memory file; those are MEMORY.md and Markdown files under memory/", clipped(p)).With("path", clipped(p))
}

// factsByLine gives the facts of a file by the line at which they begin.
func (s *Service) factsByLine(ctx context.Context, path, content string, modified time.Time) (map[int]*Fact, error) {
	records, _, err := s.readRecords(ctx, path)
	if err != nil {
		return nil, err
	}
	out := map[int]*Fact{}
	for _, st := range s.statements(path, content, records, modified) {
		f := st.fact()
		f.Path, f.Line = path, st.Unit.Line
		out[st.Unit.Line] = &f
	}
	return out, nil
}

// ListFiles gives the memory files, ordered by path.
func (s *Service) ListFiles(ctx context.Context) ([]File, error) {
	if _, err := callOf(ctx); err != nil {
		return nil, err
	}
	all, err := s.memoryFiles(ctx)
	if err != nil {
		return nil, err
	}
	return sortedMemory(all), nil
}
