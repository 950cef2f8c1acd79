// Package storetest is the suite of the port [files.Store]. Every backend passes it; a test of the suite runs it against backends that are broken on purpose.
package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Factory returns a fresh, empty store that closes with the test.
type Factory func(t testkit.T) files.Store

// Run runs the suite.
func Run(t testkit.T, factory Factory) {
	for _, c := range []struct {
		name string
		test func(testkit.T, Factory)
	}{
		{"write and read", writeAndRead},
		{"modes", modes},
		{"revisions", revisions},
		{"bytes", exactBytes},
		{"names", names},
		{"normal forms", normalForms},
		{"letter case", letterCase},
		{"file and directory", fileAndDirectory},
		{"listing", listing},
		{"pages across inserts", pagesAcrossInserts},
		{"append", appends},
		{"append in pieces", appendBig},
		{"edit", edits},
		{"delete", deletes},
		{"move", moves},
		{"large content", largeContent},
		{"read while overwritten", readWhileOverwritten},
		{"layers", layers},
		{"whiteouts last", whiteouts},
		{"change log", changeLog},
		{"wait", waits},
		{"effects", effects},
		{"failed updates", failedUpdates},
		{"quotas", quotas},
		{"isolation", isolation},
		{"forget", forget},
		{"spaces", spaces},
		{"glob", globs},
		{"grep", greps},
		{"concurrent creates", concurrentCreates},
		{"concurrent edits", concurrentEdits},
		{"concurrent appends", concurrentAppends},
		{"concurrent updates over layers", concurrentLayers},
		{"cancelled", cancelled},
		{"after close", afterClose},
		{"random operations", randomOperations},
		{"change sets", changeSets},
		{"failed change sets", failedChangeSets},
		{"the log of change sets", changeSetLog},
		{"change sets over layers", changeSetLayers},
		{"large trees", largeTrees},
	} {
		t.Run(c.name, func(t testkit.T) { c.test(t, factory) })
	}
}

// bucket is the bucket that most cases use.
var bucket = identity.Bucket{Tenant: "default", Scope: identity.ScopeUser, Agent: "coder", User: "ana"}

// user works on the view of one bucket and fails the test on what must not fail.
type user struct {
	testkit.T
	*files.View
	store files.Store
	ctx   context.Context
}

func as(t testkit.T, store files.Store, b identity.Bucket, lower ...files.Lower) user {
	return user{T: t, store: store, View: files.NewView(store, files.BucketSpace(b), lower, files.Limits{}, time.Now), ctx: t.Context()}
}

func fresh(t testkit.T, factory Factory) user { return as(t, factory(t), bucket) }

var call = files.Call{Author: "ana"}

func path(text string) fsops.Path { return fsops.PathOf(text) }

func (u user) stage(content string) files.Staged {
	u.Helper()
	s, err := u.store.Stage(u.ctx, strings.NewReader(content), 0)
	if err != nil {
		u.Fatalf("stage: %v", err)
	}
	return s
}

func (u user) tryWrite(w files.Write, content string) (files.Written, error) {
	u.Helper()
	return u.View.Write(u.ctx, call, w, u.stage(content))
}

func (u user) write(name, content string) files.Written {
	u.Helper()
	out, err := u.tryWrite(files.Write{Path: path(name)}, content)
	if err != nil {
		u.Fatalf("write %q: %v", name, err)
	}
	return out
}

func (u user) tryRead(name string) (string, error) {
	_, data, err := u.ReadAll(u.ctx, path(name), 64<<20)
	return string(data), err
}

func (u user) read(name string) string {
	u.Helper()
	data, err := u.tryRead(name)
	if err != nil {
		u.Fatalf("read %q: %v", name, err)
	}
	return data
}

// has fails unless the file has this content.
func (u user) has(name, content string) {
	u.Helper()
	if got := u.read(name); got != content {
		u.Errorf("%q holds %s, want %s", name, short(got), short(content))
	}
}

// lacks fails unless nothing is seen at the path.
func (u user) lacks(name string) {
	u.Helper()
	_, err := u.Stat(u.ctx, path(name))
	u.fails(err, fsops.ReasonPathNotFound)
}

// fails checks that an error has a reason.
func (u user) fails(err error, reason string) {
	u.Helper()
	if errdefs.ReasonOf(err) != reason {
		u.Errorf("got error %v, want reason %s", err, reason)
	}
}

func (u user) remove(name string) files.Deleted {
	u.Helper()
	out, err := u.Delete(u.ctx, call, files.Delete{Path: path(name), Recursive: true})
	if err != nil {
		u.Fatalf("delete %q: %v", name, err)
	}
	return out
}

// list returns the paths below a directory, directories with a slash at the end.
func (u user) list(dir string, deep bool) []string {
	u.Helper()
	var out []string
	token := ""
	for {
		page, err := u.List(u.ctx, path(dir), deep, 3, token)
		if err != nil {
			u.Fatalf("list %q: %v", dir, err)
		}
		for _, e := range page.Entries {
			out = append(out, shown(e))
		}
		if token = page.Next; token == "" {
			return out
		}
	}
}

func shown(e files.Entry) string {
	if e.Kind == files.KindDir {
		return e.Path.String() + "/"
	}
	return e.Path.String()
}

// shows fails unless a listing has exactly these entries in this order.
func (u user) shows(dir string, deep bool, want ...string) {
	u.Helper()
	if got := u.list(dir, deep); fmt.Sprint(got) != fmt.Sprint(want) {
		u.Errorf("list %q (deep %v) = %q, want %q", dir, deep, got, want)
	}
}

func short(text string) string {
	if len(text) > 80 {
		return fmt.Sprintf("%q… (%d bytes)", text[:80], len(text))
	}
	return fmt.Sprintf("%q", text)
}

func readAll(ctx context.Context, c files.Content) ([]byte, error) {
	var out bytes.Buffer
	_, err := out.ReadFrom(files.NewReader(ctx, c, 0))
	return out.Bytes(), err
}

func isClass(err error, classes ...error) bool {
	for _, class := range classes {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}
