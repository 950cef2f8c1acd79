package crash

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// apply makes a round's change set: a file, its twin, a directory that takes the place of the one before, and two files that change places.
func apply(ctx context.Context, view *files.View, n int64) error {
	write := func(name, content string) files.FileChange {
		return files.FileChange{Write: &files.Write{Path: fsops.PathOf(name)}, Content: []byte(content)}
	}
	move := func(from, to string) files.FileChange {
		return files.FileChange{Move: &files.Move{From: fsops.PathOf(from), To: fsops.PathOf(to)}}
	}
	number := strconv.FormatInt(n, 10)
	_, err := view.Apply(ctx, files.Call{Author: "child"}, []files.FileChange{
		{Delete: &files.Delete{Path: fsops.PathOf("set"), Recursive: true, AllowMissing: true}},
		write("set/one", number), write("set/swap", "two of "+number), write("set/two", "swap of "+number),
		move("set/swap", "set/t"), move("set/two", "set/swap"), move("set/t", "set/two"),
		{Edit: &files.EditFile{Path: fsops.PathOf("set/two"), Edits: []fsops.Replacement{{Old: "two", New: "second"}}}},
	})
	return err
}

// checkSets fails unless the files of the last set are those of one round, and every kept revision is whole.
func checkSets(t *testing.T, store files.Store, view *files.View) {
	t.Helper()
	read := func(name string) string {
		_, data, err := view.ReadAll(t.Context(), fsops.PathOf(name), 1<<20)
		if err != nil {
			return err.Error()
		}
		return string(data)
	}
	n := read("set/one")
	got := read("set/two") + ", " + read("set/swap")
	if want := fmt.Sprintf("second of %s, swap of %s", n, n); got != want {
		t.Errorf("a change set is half done: %q, %s", n, got)
	}
	page, err := view.List(t.Context(), fsops.PathOf("set"), true, 10, "")
	if err != nil || len(page.Entries) != 3 {
		t.Errorf("after a change set there are %d files, %v", len(page.Entries), err)
	}
	own := store.Space(space)
	kept, _, err := own.Revisions(t.Context(), fsops.PathOf("big"), "", 100)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range kept {
		data, err := own.Load(t.Context(), r)
		if err != nil || len(data[0]) != size || strings.Trim(string(data[0]), string(data[0][0])) != "" {
			t.Errorf("revision %s of the big file has %d bytes, or is a mix: %v", r.Revision, len(data[0]), err)
		}
	}
}
