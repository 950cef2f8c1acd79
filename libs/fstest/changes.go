package fstest

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

func (u *user) edit(path string, edits ...*filesystemv1.Replacement) (*filesystemv1.EditResponse, error) {
	return u.client.Edit(u.ctx, &filesystemv1.EditRequest{Path: u.at(path), Replacements: edits})
}

func editEndings(u *user) {
	u.write("f", "north\r\nsouth\r\neast\r\n")
	out, err := u.edit("f", &filesystemv1.Replacement{OldText: "north\nsouth", NewText: "north\nSOUTH\nsouth-b"})
	u.ok(err)
	u.holds("f", "north\r\nSOUTH\r\nsouth-b\r\neast\r\n")
	if len(out.GetReplaced()) != 1 || out.GetReplaced()[0] != 1 || !strings.Contains(out.GetDiff(), "+SOUTH") {
		u.Errorf("edit: %v", out)
	}
	u.write("g", "1\nx=1\n3\n4\n5\n6\n7\n8\nx=1\n")
	_, err = u.edit("g", &filesystemv1.Replacement{OldText: "x=1", NewText: "x=2"})
	u.fails(err, errdefs.ErrFailedPrecondition, "EDIT_AMBIGUOUS")
	out, err = u.edit("g", &filesystemv1.Replacement{OldText: "x=1", NewText: "x=2", ReplaceAll: true})
	u.ok(err)
	if out.GetReplaced()[0] != 2 {
		u.Errorf("replaced %v, want 2", out.GetReplaced())
	}
	_, err = u.edit("g", &filesystemv1.Replacement{OldText: "", NewText: "x"})
	u.fails(err, errdefs.ErrInvalidArgument, "EDIT_INVALID")
	_, err = u.edit("none", &filesystemv1.Replacement{OldText: "a", NewText: "x"})
	u.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
}

func editAtomic(u *user) {
	first := u.write("f", "a b c")
	r := func(old, new string) *filesystemv1.Replacement {
		return &filesystemv1.Replacement{OldText: old, NewText: new}
	}
	_, err := u.edit("f", r("a", "1"), r("b", "2"), r("z", "3"))
	u.fails(err, errdefs.ErrFailedPrecondition, "EDIT_NO_MATCH")
	_, err = u.edit("f", r("a b", "1"), r("b c", "2"))
	u.fails(err, errdefs.ErrInvalidArgument, "EDIT_INVALID")
	u.holds("f", "a b c")
	_, err = u.edit("f", r("a", "1"), r("c", "3"))
	u.ok(err)
	u.holds("f", "1 b 3")
	_, err = u.client.Edit(u.ctx, &filesystemv1.EditRequest{Path: u.at("f"), IfRevision: first.GetInfo().GetRevision(), Replacements: []*filesystemv1.Replacement{r("b", "2")}})
	u.fails(err, errdefs.ErrAborted, "REVISION_CONFLICT")
}

func appends(u *user) {
	add := func(content string, newline bool) *filesystemv1.AppendResponse {
		u.Helper()
		out, err := u.client.Append(u.ctx, &filesystemv1.AppendRequest{Path: u.at("d/log"), Content: []byte(content), EnsureNewline: newline})
		u.ok(err)
		return out
	}
	add("one", true)
	if out := add("two\n", true); out.GetOffsetBytes() != 4 || out.GetInfo().GetSizeBytes() != 8 {
		u.Errorf("append: %v", out)
	}
	add("three", true)
	u.holds("d/log", "one\ntwo\nthree")
	_, err := u.client.Append(u.ctx, &filesystemv1.AppendRequest{Path: u.at("d"), Content: []byte("x")})
	u.fails(err, errdefs.ErrFailedPrecondition, "IS_DIRECTORY")
}

func deletes(u *user) {
	u.write("d/a", "")
	u.write("d/e/b", "")
	u.write("dd", "")
	del := func(req *filesystemv1.DeleteRequest) error {
		req.Path = u.at(req.GetPath())
		_, err := u.client.Delete(u.ctx, req)
		return err
	}
	u.fails(del(&filesystemv1.DeleteRequest{Path: "d"}), errdefs.ErrFailedPrecondition, "DIRECTORY_NOT_EMPTY")
	u.fails(del(&filesystemv1.DeleteRequest{Path: "none"}), errdefs.ErrNotFound, "PATH_NOT_FOUND")
	u.ok(del(&filesystemv1.DeleteRequest{Path: "none", AllowMissing: true}))
	u.fails(del(&filesystemv1.DeleteRequest{Path: "dd", IfRevision: "other"}), errdefs.ErrAborted, "REVISION_CONFLICT")
	for _, root := range []string{"/", ".", "x/.."} {
		if _, err := u.client.Delete(u.ctx, &filesystemv1.DeleteRequest{Path: root, Recursive: true}); err == nil {
			u.Errorf("the root was deleted as %q", root)
		}
	}
	u.ok(del(&filesystemv1.DeleteRequest{Path: "d", Recursive: true}))
	u.missing("d/e/b")
	u.missing("d")
	u.holds("dd", "")
}

func moves(u *user) {
	mv := func(from, to string, overwrite bool) (*filesystemv1.MoveResponse, error) {
		return u.client.Move(u.ctx, &filesystemv1.MoveRequest{FromPath: u.at(from), ToPath: u.at(to), Overwrite: overwrite})
	}
	for _, name := range []string{"d/a", "d/e/b", "f", "g"} {
		u.write(name, name)
	}
	out, err := mv("d", "new/place", false)
	u.ok(err)
	if out.GetFiles() != 2 || u.own(out.GetInfo().GetPath()) != "new/place" {
		u.Errorf("move of a directory: %v", out)
	}
	u.holds("new/place/e/b", "d/e/b")
	u.missing("d/a")
	_, err = mv("f", "g", false)
	u.fails(err, errdefs.ErrAlreadyExists, "PATH_EXISTS")
	_, err = mv("f", "f", false)
	u.ok(err)
	u.holds("f", "f")
	_, err = mv("f", "g", true)
	u.ok(err)
	u.holds("g", "f")
	u.missing("f")
	if _, err = mv("new", "new/place/x", false); err == nil {
		u.Error("a directory was moved into itself")
	}
	_, err = mv("g", "new", true)
	u.fails(err, errdefs.ErrAlreadyExists, "PATH_EXISTS")
	_, err = mv("none", "x", false)
	u.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
}

func together(n int, f func(i int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { f(i) })
	}
	wait.Wait()
}

func concurrentCreates(u *user) {
	var won atomic.Int32
	together(16, func(i int) {
		_, err := u.client.Write(u.ctx, &filesystemv1.WriteRequest{Path: u.at("only"), Content: []byte(fmt.Sprint(i)), Mode: filesystemv1.WriteMode_WRITE_MODE_CREATE})
		if err == nil {
			won.Add(1)
		} else if reason(err) != "PATH_EXISTS" {
			u.Errorf("create: %v", err)
		}
	})
	if won.Load() != 1 {
		u.Errorf("%d of 16 creations of one path succeeded", won.Load())
	}
}

func concurrentAppends(u *user) {
	const writers, rounds = 8, 10
	together(writers, func(w int) {
		for r := range rounds {
			_, err := u.client.Append(u.ctx, &filesystemv1.AppendRequest{Path: u.at("log"), Content: fmt.Appendf(nil, "w%d-r%d.\n", w, r)})
			if err != nil {
				u.Errorf("append: %v", err)
				return
			}
		}
	})
	data, err := u.bytes("log")
	u.ok(err)
	for w := range writers {
		for r := range rounds {
			if line := fmt.Sprintf("w%d-r%d.\n", w, r); strings.Count(string(data), line) != 1 {
				u.Errorf("%q is there %d times", line, strings.Count(string(data), line))
			}
		}
	}
}

// A reader that polls during overwrites sees one version or another, never a mix.
func wholeFiles(u *user) {
	const size = 200_000
	version := func(i int) string { return strings.Repeat(string(rune('a'+i%26)), size) }
	u.write("f", version(0))
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			data, err := u.bytes("f")
			if err != nil {
				u.Errorf("read: %v", err)
				return
			}
			if len(data) != size || strings.Trim(string(data), string(data[0])) != "" {
				u.Errorf("a mix of versions: %d bytes", len(data))
				return
			}
		}
	})
	for i := range 40 {
		u.write("f", version(i))
	}
	close(stop)
	reader.Wait()
}

func effects(u *user) {
	if !u.has.Effects {
		return
	}
	id := newEffect()
	req := &filesystemv1.AppendRequest{Path: u.at("f"), Content: []byte("x")}
	first, err := u.client.Append(u.effect(id), req)
	u.ok(err)
	for range 3 {
		again, err := u.client.Append(u.effect(id), req)
		u.ok(err)
		if again.GetInfo().GetRevision() != first.GetInfo().GetRevision() || again.GetCursor() != first.GetCursor() {
			u.Errorf("a repeat gives %v, want %v", again, first)
		}
	}
	u.holds("f", "x")
	_, err = u.client.Append(u.effect(id), &filesystemv1.AppendRequest{Path: u.at("f"), Content: []byte("y")})
	u.fails(err, errdefs.ErrAborted, "EFFECT_MISMATCH")
	_, err = u.client.Delete(u.effect(id), &filesystemv1.DeleteRequest{Path: u.at("f")})
	u.fails(err, errdefs.ErrAborted, "EFFECT_MISMATCH")
	u.holds("f", "x")
	if _, err = u.client.Append(u.effect("no-effect-id"), req); err == nil {
		u.Error("a text that is no effect id was taken")
	}
	create := &filesystemv1.WriteRequest{Path: u.at("c"), Content: []byte("1"), Mode: filesystemv1.WriteMode_WRITE_MODE_CREATE}
	id = newEffect()
	for range 2 {
		out, err := u.client.Write(u.effect(id), create)
		u.ok(err)
		if !out.GetCreated() {
			u.Error("a repeated creation says that it created nothing")
		}
	}
}

func usage(u *user) {
	before, err := u.client.GetUsage(u.ctx, &filesystemv1.GetUsageRequest{})
	if reason(err) == "CAPABILITY_MISSING" {
		return
	}
	u.ok(err)
	u.write("a", "12345")
	u.write("b", "123")
	u.remove("b")
	after, err := u.client.GetUsage(u.ctx, &filesystemv1.GetUsageRequest{})
	u.ok(err)
	if bytes := after.GetUsage().GetUsedBytes() - before.GetUsage().GetUsedBytes(); bytes != 5 && !u.has.UsageInBlocks || bytes < 5 {
		u.Errorf("usage grew by %d bytes, want 5", bytes)
	}
	if n := after.GetUsage().GetUsedFiles() - before.GetUsage().GetUsedFiles(); n != 1 && !u.has.UsageInBlocks || n < 1 {
		u.Errorf("usage grew by %d files, want 1", n)
	}
}

// isolation: ids that look alike select buckets that share nothing, by any door.
func isolation(u *user) {
	if u.has.Shared {
		return
	}
	ids := []string{"ana", "Ana", "ana ", "a/b", "..", ".", "../ana", "a:b", "a-b", "アナ", "cid9+/Q==", "%61na", "~"}
	var all []*user
	for i, id := range ids {
		other := u.as(func(to *identity.Identity) { to.User = id })
		other.write("secret.txt", fmt.Sprintf("tok-%d-", i))
		all = append(all, other)
	}
	session := u.as(func(to *identity.Identity) { to.Scope = identity.ScopeSession })
	session.missing("secret.txt")
	for i, other := range all {
		want := fmt.Sprintf("tok-%d-", i)
		other.holds("secret.txt", want)
		if got, _ := other.grep(&filesystemv1.GrepRequest{Pattern: "tok-"}); len(got) != 1 || got[0].GetText() != want {
			u.Errorf("user %q finds %v", ids[i], got)
		}
		if got := other.list("", true, 50); len(got) != 1 {
			u.Errorf("user %q sees %q", ids[i], got)
		}
		if got := other.glob(&filesystemv1.GlobRequest{Pattern: "**"}); len(got) != 1 {
			u.Errorf("user %q globs %q", ids[i], got)
		}
	}
	agent := u.as(func(to *identity.Identity) { to.Agent += "-2" })
	agent.missing("secret.txt")
	for _, path := range []string{"/Ana/secret.txt", "../Ana/secret.txt", "ana/../../Ana/secret.txt"} {
		if _, err := all[0].bytes(path); err == nil {
			u.Errorf("%q leads to another bucket", path)
		}
	}
}

// anonymous: two sessions without a user have nothing in common, and without a session there is no bucket.
func anonymous(u *user) {
	if u.has.Shared {
		return
	}
	one := u.as(func(to *identity.Identity) { to.User, to.Session = "", "one" })
	two := u.as(func(to *identity.Identity) { to.User, to.Session = "", "two" })
	one.write("f", "1")
	two.missing("f")
	two.write("f", "2")
	one.holds("f", "1")
	u.missing("f")
	nobody := u.as(func(to *identity.Identity) { to.User, to.Session = "", "" })
	_, err := nobody.stat("")
	u.fails(err, errdefs.ErrInvalidArgument, "IDENTITY_REQUIRED")
}
