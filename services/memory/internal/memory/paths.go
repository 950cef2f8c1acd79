package memory

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/services/memory/internal/index"
)

// The files of a bucket's memory.
const (
	memoryFile    = "MEMORY.md"
	memoryDir     = "memory"
	recordDir     = "memory/.provenance"
	memoryRecords = "memory/.provenance/MEMORY.jsonl"
	stateFile     = "memory/.consolidation.json"
	versionDir    = "memory/.versions"
	overflowDir   = "memory/overflow"
)

var ledgerName = regexp.MustCompile(`^memory/(\d{4}-\d{2}-\d{2})\.md$`)

// ledgerPath is the ledger of a day.
func ledgerPath(at time.Time) string { return memoryDir + "/" + at.Format(time.DateOnly) + ".md" }

// recordPath is where the records of a memory file are kept.
func recordPath(file string) string {
	if file == memoryFile {
		return memoryRecords
	}
	rest := strings.TrimSuffix(strings.TrimPrefix(file, memoryDir+"/"), ".md")
	return recordDir + "/" + rest + ".jsonl"
}

// overflowPath is where lines go that MEMORY.md has no room for.
func overflowPath(at time.Time) string { return overflowDir + "/" + at.Format("2006-01") + ".md" }

// isMemory says whether a path is a memory file that people and agents read: MEMORY.md, or Markdown under memory/ without hidden parts.
func isMemory(p string) bool {
	if p == memoryFile {
		return true
	}
	return strings.HasPrefix(p, memoryDir+"/") && strings.HasSuffix(p, ".md") && !strings.Contains(p, "/.") && path.Clean(p) == p
}

// KindOf says what the statements of a file count as.
func KindOf(p string) index.Kind {
	switch {
	case p == memoryFile:
		return index.KindMemory
	case ledgerName.MatchString(p):
		return index.KindFact
	}
	return index.KindNote
}

// sortedMemory gives the memory files among files, ordered by path.
func sortedMemory(files map[string]File) []File {
	var out []File
	for p, f := range files {
		if isMemory(p) {
			out = append(out, f)
		}
	}
	slices.SortFunc(out, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return out
}
