package fstest

import (
	"fmt"
	"strings"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

func (u *user) keeps() bool { return u.has.History || u.has.SomeHistory }

// revisions lists the history of a path, newest first, in pages of a size.
func (u *user) revisions(path string, size int32) []*filesystemv1.Revision {
	u.Helper()
	var out []*filesystemv1.Revision
	for token := ""; ; {
		page, err := u.client.ListRevisions(u.ctx, &filesystemv1.ListRevisionsRequest{Path: u.at(path), PageSize: size, PageToken: token})
		u.ok(err)
		if size > 0 && len(page.GetRevisions()) > int(size) {
			u.Errorf("a page of %d revisions holds %d", size, len(page.GetRevisions()))
		}
		out = append(out, page.GetRevisions()...)
		if token = page.GetNextPageToken(); token == "" {
			return out
		}
	}
}

// readRevision reads a revision as text and as a download.
func (u *user) readRevision(path, revision string) string {
	u.Helper()
	read, err := u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at(path), Revision: revision})
	u.ok(err)
	if got := read.GetInfo().GetRevision(); got != revision {
		u.Errorf("read revision %s of %q and got %s", revision, path, got)
	}
	stream, err := u.client.Download(u.ctx, &filesystemv1.DownloadRequest{Path: u.at(path), Revision: revision})
	u.ok(err)
	var data strings.Builder
	for {
		message, err := stream.Recv()
		if err != nil {
			break
		}
		data.Write(message.GetChunk())
	}
	if data.String() != read.GetText() {
		u.Errorf("revision %s of %q is read as %q and downloaded as %q", revision, path, read.GetText(), data.String())
	}
	return read.GetText()
}

// had fails unless the history of a path is this, newest first, in pages of any size.
func (u *user) had(path string, want ...string) []*filesystemv1.Revision {
	u.Helper()
	var all []*filesystemv1.Revision
	for _, size := range []int32{1, 2, 0} {
		var got []string
		all = u.revisions(path, size)
		for _, r := range all {
			if r.GetTime() == nil {
				u.Errorf("a revision of %q has no time: %v", path, r)
			}
			if r.GetDeleted() {
				got = append(got, "deleted")
			} else {
				got = append(got, u.readRevision(path, r.GetRevision()))
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			u.Errorf("the history of %q is %q, want %q", path, got, want)
		}
	}
	return all
}

func history(u *user) {
	first := u.write("d/f", "1\n")
	if !u.keeps() {
		_, err := u.client.ListRevisions(u.ctx, &filesystemv1.ListRevisionsRequest{Path: u.at("d/f")})
		u.fails(err, errdefs.ErrUnimplemented, "CAPABILITY_MISSING")
		_, err = u.client.RestoreRevision(u.ctx, &filesystemv1.RestoreRevisionRequest{Path: u.at("d/f"), Revision: first.GetInfo().GetRevision()})
		u.fails(err, errdefs.ErrUnimplemented, "CAPABILITY_MISSING")
		_, err = u.client.DiffRevisions(u.ctx, &filesystemv1.DiffRevisionsRequest{Path: u.at("d/f")})
		u.fails(err, errdefs.ErrUnimplemented, "CAPABILITY_MISSING")
		return
	}
	second := u.write("d/f", "2\n")
	_, err := u.client.Append(u.ctx, &filesystemv1.AppendRequest{Path: u.at("d/f"), Content: []byte("3\n")})
	u.ok(err)
	all := u.had("d/f", "2\n3\n", "2\n", "1\n")
	if got := all[2]; got.GetRevision() != first.GetInfo().GetRevision() || got.GetSha256() != first.GetInfo().GetSha256() || got.GetSizeBytes() != 2 ||
		got.GetLayer() != filesystemv1.Layer_LAYER_BUCKET || got.GetAuthor() != first.GetInfo().GetAuthor() {
		u.Errorf("the first revision: %v, want that of %v", got, first.GetInfo())
	}
	diff, err := u.client.DiffRevisions(u.ctx, &filesystemv1.DiffRevisionsRequest{Path: u.at("d/f"), FromRevision: second.GetInfo().GetRevision()})
	u.ok(err)
	if !strings.HasSuffix(diff.GetDiff(), "@@ -1,1 +1,2 @@\n 2\n+3\n") || diff.GetEqual() || diff.GetTruncated() {
		u.Errorf("diff: %v", diff)
	}
	diff, err = u.client.DiffRevisions(u.ctx, &filesystemv1.DiffRevisionsRequest{
		Path: u.at("d/f"), FromRevision: second.GetInfo().GetRevision(), ToRevision: second.GetInfo().GetRevision(),
	})
	u.ok(err)
	if diff.GetDiff() != "" || !diff.GetEqual() {
		u.Errorf("diff of equal revisions: %v", diff)
	}
	u.remove("d")
	u.had("d/f", "deleted", "2\n3\n", "2\n", "1\n")

	ben := u.as(func(id *identityOf) { id.User = "ben" })
	_, err = ben.client.ListRevisions(ben.ctx, &filesystemv1.ListRevisionsRequest{Path: u.at("d/f")})
	if !u.has.Shared {
		u.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
		_, err = ben.client.Read(ben.ctx, &filesystemv1.ReadRequest{Path: u.at("d/f"), Revision: all[2].GetRevision()})
		u.fails(err, errdefs.ErrNotFound, "REVISION_NOT_KEPT")
	}
	_, err = u.client.ListRevisions(u.ctx, &filesystemv1.ListRevisionsRequest{Path: u.at("none")})
	u.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
	_, err = u.client.ListRevisions(u.ctx, &filesystemv1.ListRevisionsRequest{Path: u.at("d/f"), PageToken: "forged"})
	u.fails(err, errdefs.ErrInvalidArgument, "TOKEN_INVALID")
	_, err = u.client.Read(u.ctx, &filesystemv1.ReadRequest{Path: u.at("d/f"), Revision: "none"})
	u.fails(err, errdefs.ErrNotFound, "REVISION_NOT_KEPT")
	_, err = u.client.DiffRevisions(u.ctx, &filesystemv1.DiffRevisionsRequest{Path: u.at("d/f"), FromRevision: "none", ToRevision: all[2].GetRevision()})
	u.fails(err, errdefs.ErrNotFound, "REVISION_NOT_KEPT")
}

func restores(u *user) {
	if !u.keeps() {
		return
	}
	first := u.write("f", "1").GetInfo().GetRevision()
	second := u.write("f", "2").GetInfo().GetRevision()
	restore := func(revision, current string) error {
		_, err := u.client.RestoreRevision(u.ctx, &filesystemv1.RestoreRevisionRequest{Path: u.at("f"), Revision: revision, IfRevision: current})
		return err
	}
	u.fails(restore(first, first), errdefs.ErrAborted, "REVISION_CONFLICT")
	u.fails(restore("none", ""), errdefs.ErrNotFound, "REVISION_NOT_KEPT")
	u.ok(restore(first, second))
	u.holds("f", "1")
	u.had("f", "1", "2", "1")
	u.remove("f")
	u.ok(restore(second, ""))
	u.holds("f", "2")
	u.had("f", "2", "deleted", "1", "2", "1")
	u.remove("f")
	u.fails(restore(second, second), errdefs.ErrAborted, "REVISION_CONFLICT")
}

func historyEffects(u *user) {
	if !u.keeps() || !u.has.Effects {
		return
	}
	first := u.write("f", "1").GetInfo().GetRevision()
	u.write("f", "2")
	ctx := u.effect(newEffect())
	req := &filesystemv1.RestoreRevisionRequest{Path: u.at("f"), Revision: first}
	one, err := u.client.RestoreRevision(ctx, req)
	u.ok(err)
	u.write("f", "3")
	two, err := u.client.RestoreRevision(ctx, req)
	u.ok(err)
	if one.GetInfo().GetRevision() != two.GetInfo().GetRevision() || one.GetCursor() != two.GetCursor() {
		u.Errorf("a restore under one effect: %v, then %v", one, two)
	}
	u.holds("f", "3")
	_, err = u.client.RestoreRevision(ctx, &filesystemv1.RestoreRevisionRequest{Path: u.at("f"), Revision: first, IfRevision: "other"})
	u.fails(err, errdefs.ErrAborted, "EFFECT_MISMATCH")
}
