package run

import (
	"fmt"
	"strings"
	"unicode/utf8"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/credential"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

const (
	// evictOver is the number of characters from which a result goes into a file.
	evictOver = 80_000
	// evictEdge is what stays of it at either end.
	evictEdge = 2_000
	// keptBytes bounds a result that stays whole: the journal must be able to take it.
	keptBytes = 1 << 20
	// evictDir is where the files are.
	evictDir = "large_tool_results/"
)

// keptTools give text that is in a file already, or that the caller pages through: a file of it would be a copy, and the note about it a second one to follow.
var keptTools = map[string]bool{
	"read_file": true, "write_file": true, "edit_file": true, "append_file": true, "grep_files": true, "glob_files": true, "list_files": true,
	"memory_search": true, "memory_get": true, "thread_search": true, "thread_history": true, "load_skill_through_path": true,
}

// evict puts a large result into a file and leaves its ends. The file is written before the result is committed that names it, under an effect id of the
// call, so that a repeat writes it once. When it can't be written the result stays whole.
func (a *actor) evict(c *loop.Call, r *threadv1.ToolResult) {
	defer bound(r)
	if keptTools[r.GetName()] || r.GetFullTextPath() != "" || utf8.RuneCountInString(r.GetText()) <= evictOver || a.m.files == nil {
		return
	}
	id := a.identity
	id.Effect = effect.Derive(c.Dispatched.GetEffect(), "evict")
	path := evictDir + identity.EncodeSegment(a.state.Run.ID) + "/" + fmt.Sprintf("%d.%d.txt", a.state.Run.Step, c.Ordinal)
	_, err := a.m.files.Write(credential.NewContext(a.withIdentity(id), a.credential), &fsv1.WriteRequest{Path: path, Content: []byte(r.GetText())})
	if err != nil {
		a.log.Warn("a large result could not be put into a file and stays whole", "tool", r.GetName(), "path", path, "error", err)
		return
	}
	head, tail, left := ends(r.GetText(), evictEdge)
	r.FullTextPath = path
	r.Text = fmt.Sprintf("%s\n\n[%d characters left out; the whole text is in %s, read it in parts with read_file]\n\n%s", head, left, path, tail)
}

// bound cuts what is too large for the journal and says so.
func bound(r *threadv1.ToolResult) {
	if len(r.GetText()) > keptBytes {
		r.Text = strings.ToValidUTF8(r.GetText()[:keptBytes], "�") + fmt.Sprintf("\n[cut: %d bytes more]", len(r.GetText())-keptBytes)
	}
}

// ends returns the first and last n characters and how many are between.
func ends(text string, n int) (head, tail string, left int) {
	runes := utf8.RuneCountInString(text)
	i := 0
	for range n {
		_, size := utf8.DecodeRuneInString(text[i:])
		i += size
	}
	j := len(text)
	for range n {
		_, size := utf8.DecodeLastRuneInString(text[:j])
		j -= size
	}
	return strings.ToValidUTF8(text[:i], "�"), strings.ToValidUTF8(text[j:], "�"), runes - 2*n
}
