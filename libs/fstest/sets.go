package fstest

import (
	"errors"
	"strings"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
)

func (u *user) sets() bool { return u.has.ChangeSets || u.has.SomeHistory }

func (u *user) writeOf(path, content string) *filesystemv1.FileChange {
	return &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Write{Write: &filesystemv1.WriteRequest{Path: u.at(path), Content: []byte(content)}}}
}

func (u *user) editOf(path, from, to string) *filesystemv1.FileChange {
	return &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Edit{Edit: &filesystemv1.EditRequest{
		Path: u.at(path), Replacements: []*filesystemv1.Replacement{{OldText: from, NewText: to}},
	}}}
}

func (u *user) deleteOf(path string) *filesystemv1.FileChange {
	return &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Delete{Delete: &filesystemv1.DeleteRequest{Path: u.at(path), Recursive: true}}}
}

func (u *user) moveOf(from, to string) *filesystemv1.FileChange {
	return &filesystemv1.FileChange{Change: &filesystemv1.FileChange_Move{Move: &filesystemv1.MoveRequest{FromPath: u.at(from), ToPath: u.at(to), Overwrite: true}}}
}

func (u *user) apply(changes ...*filesystemv1.FileChange) (*filesystemv1.ApplyChangesResponse, error) {
	return u.client.ApplyChanges(u.ctx, &filesystemv1.ApplyChangesRequest{Changes: changes})
}

// Each change of a set sees those before it.
func changeSets(u *user) {
	if !u.sets() {
		_, err := u.apply(u.writeOf("f", "1"))
		u.fails(err, errdefs.ErrUnimplemented, "CAPABILITY_MISSING")
		return
	}
	u.write("a", "a")
	u.write("b", "b")
	u.write("d/x", "x")
	u.write("d/y", "y")
	out, err := u.apply(
		u.writeOf("new", "one two"), u.editOf("new", "two", "three"),
		u.moveOf("a", "t"), u.moveOf("b", "a"), u.moveOf("t", "b"), // a swap
		u.deleteOf("d"), u.writeOf("d", "a file now"),
		u.editOf("a", "b", "was b"),
		u.moveOf("new", "e/new"), u.writeOf("new", "another"),
		u.writeOf("short", "1"), u.deleteOf("short"),
	)
	u.ok(err)
	var paths []string
	for _, info := range out.GetInfos() {
		paths = append(paths, u.own(info.GetPath()))
	}
	if got := strings.Join(paths, " "); got != "new new t a b d a e/new new short" || out.GetCursor() == "" {
		u.Errorf("the files of the set: %s, cursor %q", got, out.GetCursor())
	}
	for path, want := range map[string]string{"a": "was b", "b": "a", "d": "a file now", "e/new": "one three", "new": "another"} {
		u.holds(path, want)
	}
	u.missing("t")
	u.missing("short")
	if !u.has.Effects {
		return
	}
	ctx := u.effect(newEffect())
	req := &filesystemv1.ApplyChangesRequest{Changes: []*filesystemv1.FileChange{u.writeOf("n", "1"), u.editOf("n", "1", "2")}}
	one, err := u.client.ApplyChanges(ctx, req)
	u.ok(err)
	u.write("n", "since")
	two, err := u.client.ApplyChanges(ctx, req)
	u.ok(err)
	if one.GetCursor() != two.GetCursor() || one.GetInfos()[1].GetRevision() != two.GetInfos()[1].GetRevision() {
		u.Errorf("a set under one effect: %v, then %v", one, two)
	}
	u.holds("n", "since")
	_, err = u.client.ApplyChanges(ctx, &filesystemv1.ApplyChangesRequest{Changes: req.Changes[:1]})
	u.fails(err, errdefs.ErrAborted, "EFFECT_MISMATCH")
}

// A set that fails changes nothing, and says which change it was.
func changeSetsAtomic(u *user) {
	if !u.sets() {
		return
	}
	u.write("a", "a")
	before := u.write("b", "b").GetInfo().GetRevision()
	good := []*filesystemv1.FileChange{u.writeOf("a", "changed"), u.deleteOf("b"), u.writeOf("c", "new")}
	for _, c := range []struct {
		bad    *filesystemv1.FileChange
		class  error
		reason string
	}{
		{u.editOf("a", "no such text", "x"), errdefs.ErrFailedPrecondition, "EDIT_NO_MATCH"},
		{u.deleteOf("b"), errdefs.ErrNotFound, "PATH_NOT_FOUND"},
		{u.writeOf("a/below", "x"), errdefs.ErrFailedPrecondition, "NOT_A_DIRECTORY"},
		{u.moveOf("b", "d"), errdefs.ErrNotFound, "PATH_NOT_FOUND"},
		{u.writeOf("x\x00y", "x"), errdefs.ErrInvalidArgument, "PATH_INVALID"},
	} {
		_, err := u.apply(append(good[:3:3], c.bad, u.writeOf("e", "never"))...)
		u.fails(err, c.class, c.reason)
		typed, ok := errors.AsType[*errdefs.Error](errgrpc.FromStatus(err))
		// A router may refuse a bad path before it sends the set to its owner.
		if !ok || typed.Meta["change"] != "3" && c.reason != "PATH_INVALID" {
			u.Errorf("%s: the failing change is %v, want 3", c.reason, typed)
		}
	}
	u.holds("a", "a")
	u.holds("b", "b")
	u.missing("c")
	u.missing("e")
	if info, err := u.stat("b"); err != nil || info.GetRevision() != before {
		u.Errorf("a failed set gave a new revision: %v, %v", info, err)
	}
	_, err := u.apply()
	u.fails(err, errdefs.ErrInvalidArgument, "REQUEST_INVALID")
}
