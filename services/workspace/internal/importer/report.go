package importer

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// MaxLeftOut bounds the list of what was left out; all is counted.
const MaxLeftOut = 1000

// Report says what an import did.
type Report struct {
	// Files and Threads taken over, or that would be.
	Files, Threads int64
	// UnchangedFiles and UnchangedThreads were taken over before.
	UnchangedFiles, UnchangedThreads int64
	// LeftOut is what could not be mapped, as "path: reason", at most MaxLeftOut; LeftOutCount counts all.
	LeftOut      []string
	LeftOutCount int64
	// More says that the import ended early for lack of time.
	More bool
}

func (r *Report) leave(path, reason string) {
	if r.LeftOutCount++; len(r.LeftOut) < MaxLeftOut {
		r.LeftOut = append(r.LeftOut, shown(path)+": "+reason)
	}
}

// shown is a path for people: UTF-8, in one line.
func shown(path string) string {
	text, _ := fsops.Text(path)
	if strings.ContainsFunc(text, unicode.IsControl) {
		return strconv.Quote(text)
	}
	return text
}
