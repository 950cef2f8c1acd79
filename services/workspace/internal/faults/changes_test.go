package faults

import (
	"bytes"
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// mutation is one kind of change, with what a space holds before and after it.
type mutation struct {
	name string
	// change makes it under an effect.
	change func(ctx context.Context, store files.Store, call files.Call) error
	// before and after are all files of the space, by path.
	before, after map[string][]byte
}

var (
	tiny  = []byte("old\n")
	added = []byte("added\n")
	large = bytes.Repeat([]byte("large content\n"), 25_000) // some chunks of every store
)

// mutations are all kinds of changes.
var mutations = []mutation{
	{
		name: "create", before: map[string][]byte{}, after: map[string][]byte{"f": added},
		change: func(ctx context.Context, store files.Store, call files.Call) error {
			return put(ctx, store, call, "f", added)
		},
	},
	{
		name: "overwrite with much", before: map[string][]byte{"d/f": tiny}, after: map[string][]byte{"d/f": large},
		change: func(ctx context.Context, store files.Store, call files.Call) error {
			return put(ctx, store, call, "d/f", large)
		},
	},
	{
		name: "append", before: map[string][]byte{"f": tiny}, after: map[string][]byte{"f": []byte("old\nadded\n")},
		change: func(ctx context.Context, store files.Store, call files.Call) error {
			_, err := viewOf(store, ana).Append(ctx, call, fsops.PathOf("f"), added, true)
			return err
		},
	},
	{
		name: "edit", before: map[string][]byte{"f": large}, after: map[string][]byte{"f": bytes.ReplaceAll(large, []byte("large"), []byte("other"))},
		change: func(ctx context.Context, store files.Store, call files.Call) error {
			_, err := viewOf(store, ana).Edit(ctx, call, fsops.PathOf("f"), []fsops.Replacement{{Old: "large", New: "other", All: true}}, "")
			return err
		},
	},
	{
		name: "delete", before: map[string][]byte{"f": large, "g": tiny}, after: map[string][]byte{"g": tiny},
		change: func(ctx context.Context, store files.Store, call files.Call) error {
			_, err := viewOf(store, ana).Delete(ctx, call, files.Delete{Path: fsops.PathOf("f")})
			return err
		},
	},
	{
		name: "delete a directory", before: map[string][]byte{"d/a": tiny, "d/b/c": added, "g": tiny}, after: map[string][]byte{"g": tiny},
		change: func(ctx context.Context, store files.Store, call files.Call) error {
			_, err := viewOf(store, ana).Delete(ctx, call, files.Delete{Path: fsops.PathOf("d"), Recursive: true})
			return err
		},
	},
	{
		name: "move over a file", before: map[string][]byte{"f": large, "g": tiny}, after: map[string][]byte{"g": large},
		change: func(ctx context.Context, store files.Store, call files.Call) error {
			_, err := viewOf(store, ana).Move(ctx, call, files.Move{From: fsops.PathOf("f"), To: fsops.PathOf("g"), Overwrite: true})
			return err
		},
	},
	{
		name: "move a directory", before: map[string][]byte{"d/a": tiny, "d/b/c": added, "d/z": large}, after: map[string][]byte{"e/x/a": tiny, "e/x/b/c": added, "e/x/z": large},
		change: func(ctx context.Context, store files.Store, call files.Call) error {
			_, err := viewOf(store, ana).Move(ctx, call, files.Move{From: fsops.PathOf("d"), To: fsops.PathOf("e/x")})
			return err
		},
	},
	{
		name: "set of changes", before: map[string][]byte{"a": tiny, "b": tiny, "c": tiny}, after: map[string][]byte{"a": large, "c2": tiny, "new/n": added},
		change: func(ctx context.Context, store files.Store, call files.Call) error {
			_, err := viewOf(store, ana).Apply(ctx, call, []files.FileChange{
				{Write: &files.Write{Path: fsops.PathOf("a")}, Content: large},
				{Delete: &files.Delete{Path: fsops.PathOf("b")}},
				{Move: &files.Move{From: fsops.PathOf("c"), To: fsops.PathOf("c2")}},
				{Write: &files.Write{Path: fsops.PathOf("new/n")}, Content: added},
			})
			return err
		},
	},
}

func put(ctx context.Context, store files.Store, call files.Call, path string, content []byte) error {
	staged, err := store.Stage(ctx, bytes.NewReader(content), 0)
	if err != nil {
		return err
	}
	_, err = viewOf(store, ana).Write(ctx, call, files.Write{Path: fsops.PathOf(path)}, staged)
	return err
}

// begin makes what a mutation starts with, in an empty space.
func (m mutation) begin(t *testing.T, store files.Store) {
	t.Helper()
	if _, err := store.Forget(t.Context(), ana); err != nil {
		t.Fatal(err)
	}
	for path, content := range m.before {
		mustWrite(t, store, ana, path, content)
	}
}

// effect is the id of the try number n of a mutation.
func (m mutation) effect(n int) files.Call {
	return m.callOf(effect.For(time.Now(), "faults", m.name, strconv.Itoa(n)))
}

func (m mutation) callOf(effect string) files.Call {
	return files.Call{Author: "tester", Effect: files.Effect{ID: effect, Hash: m.name}}
}

// outcome says whether the space holds what it held before the mutation, or what it holds after it. Anything else fails the test.
func (m mutation) outcome(t *testing.T, store files.Store) (done bool) {
	t.Helper()
	got := map[string][]byte{}
	view := viewOf(store, ana)
	for _, e := range all(t, view) {
		_, content, err := view.ReadAll(t.Context(), e.Path, 1<<30)
		if err != nil && errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
			t.Fatalf("%s: %s can't be read: %v", m.name, e.Path, err)
		}
		got[e.Path.String()] = content
	}
	switch {
	case same(got, m.before):
		return false
	case same(got, m.after):
		return true
	}
	for path, content := range got {
		t.Errorf("%s: %s has %d bytes", m.name, path, len(content))
	}
	t.Fatalf("%s is half done", m.name)
	return false
}

func same(a, b map[string][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for path, content := range a {
		if other, ok := b[path]; !ok || !bytes.Equal(content, other) {
			return false
		}
	}
	return true
}
