package threadtest

import (
	"slices"
	"strings"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
)

var keeperCases = []testCase{
	{"Redact/no checkpoint of who read the thread before", func(e *env) {
		h := e.fill(3)
		_, err := e.Redact(e.ctx, &threadv1.RedactRequest{Seqs: []int64{2}})
		e.no(err)
		checkpoint := func(h held) int64 {
			blob, err := e.PutBlob(e.ctx, &threadv1.PutBlobRequest{Data: []byte("what " + h.owner.GetId() + " knows")})
			e.no(err)
			r := e.batch(h)
			r.Events = []*threadv1.Event{{Id: r.GetBatchId(), Payload: &threadv1.EventPayload{Kind: &threadv1.EventPayload_CheckpointWritten{
				CheckpointWritten: &threadv1.CheckpointWritten{ThroughSeq: e.head().GetSeq(), BlobSha256: blob.GetSha256()}}}}}
			e.commit(r)
			_, err = e.GetBlob(e.ctx, &threadv1.GetBlobRequest{Sha256: blob.GetSha256()})
			if at := e.head().GetCheckpointSeq(); (at > 0) != (err == nil) {
				e.Errorf("checkpoint %d, its blob: %v", at, err)
			}
			return e.head().GetCheckpointSeq()
		}
		if at := checkpoint(h); at != 0 {
			e.Errorf("the checkpoint %d may say what was redacted", at)
		}
		_, err = e.Release(e.ctx, &threadv1.ReleaseRequest{OwnerId: h.owner.GetId(), Epoch: h.epoch})
		e.no(err)
		if at := checkpoint(e.acquire(e.boot())); at != 5 {
			e.Errorf("the last checkpoint is %d, want 5, of an owner that read the thread after", at)
		}
	}},
	{"Fork/shares the past", func(e *env) {
		h := e.fill(3)
		e.commit(e.batch(h, "4", "5"))
		r, err := e.Fork(e.ctx, &threadv1.ForkRequest{AtSeq: 2, ToSession: "f"})
		e.no(err)
		if got := r.GetHead(); got.GetSeq() != 2 || got.GetForkedFrom().GetSession() != "s" || got.GetForkedAtSeq() != 2 || got.GetThread().GetSession() != "f" {
			e.Errorf("fork %v", got)
		}
		f := e.session("f")
		f.commit(f.batch(f.acquire(f.boot()), "mine"))
		if got := f.texts(); !slices.Equal(got, []string{"1", "2", "mine"}) {
			e.Errorf("the fork holds %v", got)
		}
		_, err = e.Fork(e.ctx, &threadv1.ForkRequest{AtSeq: 4, ToSession: "g"})
		e.want(err, errdefs.ErrFailedPrecondition, threadv1.ErrorReason_ERROR_REASON_NO_FORK_POINT)
		_, err = e.Fork(e.ctx, &threadv1.ForkRequest{ToSession: "f"})
		e.want(err, errdefs.ErrAlreadyExists, threadv1.ErrorReason_ERROR_REASON_THREAD_EXISTS)
		red, err := e.Redact(e.ctx, &threadv1.RedactRequest{Seqs: []int64{1, 3}, Reason: "asked"})
		e.no(err)
		if red.GetEvents() != 2 {
			e.Errorf("redacted %v", red)
		}
		if a, b := strings.Join(e.texts(), " "), strings.Join(f.texts(), " "); a != "† 2 † 4 5" || b != "† 2 mine" {
			e.Errorf("after the redaction: %q and %q", a, b)
		}
		d, err := e.Delete(e.ctx, &threadv1.DeleteRequest{})
		e.no(err)
		if !d.GetDeleted() {
			e.Error("not deleted")
		}
		if got := f.texts(); !slices.Equal(got, []string{"†", "2", "mine"}) {
			e.Errorf("after the deletion the fork holds %v", got)
		}
		d, err = e.Delete(e.ctx, &threadv1.DeleteRequest{})
		e.no(err)
		if d.GetDeleted() {
			e.Error("deleted twice")
		}
		_, err = e.Head(e.ctx, &threadv1.HeadRequest{})
		e.missing(err)
		again := e.acquire(e.boot())
		if again.epoch <= h.epoch || e.head().GetSeq() != 0 {
			e.Errorf("made anew at epoch %d: %v", again.epoch, e.head())
		}
	}},
	{"Blobs/by hash", func(e *env) {
		for _, data := range []string{"", "x", strings.Repeat("y", 5<<20)} {
			put, err := e.PutBlob(e.ctx, &threadv1.PutBlobRequest{Data: []byte(data)})
			e.no(err)
			got, err := e.GetBlob(e.ctx, &threadv1.GetBlobRequest{Sha256: put.GetSha256()})
			e.no(err)
			if string(got.GetData()) != data {
				e.Errorf("%d bytes came back as %d", len(data), len(got.GetData()))
			}
		}
		none := strings.Repeat("0", 64)
		_, err := e.GetBlob(e.ctx, &threadv1.GetBlobRequest{Sha256: none})
		e.want(err, errdefs.ErrNotFound, threadv1.ErrorReason_ERROR_REASON_BLOB_NOT_FOUND)
		_, err = e.GetBlob(e.ctx, &threadv1.GetBlobRequest{Sha256: "../etc"})
		e.want(err, errdefs.ErrInvalidArgument, 0)
		r := e.batch(e.acquire(e.boot()), "x")
		r.Events[0].GetPayload().GetMessageAppended().GetMessage().Blocks = []*threadv1.ContentBlock{
			{Block: &threadv1.ContentBlock_Media{Media: &threadv1.Media{BlobSha256: none}}}}
		_, err = e.Commit(e.ctx, r)
		e.want(err, errdefs.ErrNotFound, threadv1.ErrorReason_ERROR_REASON_BLOB_NOT_FOUND)
	}},
}

var isolationCases = []testCase{
	{"Isolation/hostile ids stay apart", func(e *env) {
		ids := []string{"a", "A", "a/b", "a:b", "a-b", ".", "..", "../s", "s ", " s", "~", "%61", "Ü", "U\u0308", "アナ", "cid9+/Q==", strings.Repeat("x", 256)}
		var all []*env
		for _, id := range ids {
			for _, who := range []identity.Identity{
				{Agent: e.id.Agent, User: e.id.User, Session: id}, {Agent: e.id.Agent, User: e.id.User[:20] + id, Session: "s"}, {Agent: e.id.User[:20] + id, User: e.id.User, Session: "s"},
			} {
				if len(who.User) > 256 || len(who.Agent) > 256 {
					continue
				}
				other := e.as(e.ctx, who)
				other.commit(other.batch(other.acquire(other.boot()), who.Agent+"|"+who.User+"|"+who.Session))
				all = append(all, other)
			}
		}
		for _, other := range all {
			want := other.id.Agent + "|" + other.id.User + "|" + other.id.Session
			if got := other.texts(); !slices.Equal(got, []string{want}) {
				e.Errorf("%q holds %q", want, got)
			}
			list, err := other.List(other.ctx, &threadv1.ListRequest{PageSize: 500})
			e.no(err)
			for _, h := range list.GetHeads() {
				if h.GetThread().GetUser() != other.id.User || h.GetThread().GetAgent() != other.id.Agent {
					e.Errorf("%q sees %v", want, h.GetThread())
				}
			}
		}
	}},
	{"Isolation/other people's sessions are unknown", func(e *env) {
		h := e.fill(2)
		for _, id := range []identity.Identity{
			{Agent: e.id.Agent, User: "ben " + e.id.User, Session: "s"}, {Agent: "another", User: e.id.User, Session: "s"},
		} {
			o := e.as(e.ctx, id)
			_, err := o.Head(o.ctx, &threadv1.HeadRequest{})
			e.missing(err)
			_, _, err = o.scan(&threadv1.ScanRequest{})
			e.missing(err)
			_, err = o.Commit(o.ctx, o.batch(h, "x"))
			e.missing(err)
			_, err = o.Redact(o.ctx, &threadv1.RedactRequest{Seqs: []int64{1}})
			e.missing(err)
			_, err = o.Fork(o.ctx, &threadv1.ForkRequest{ToSession: "f"})
			e.missing(err)
			d, err := o.Delete(o.ctx, &threadv1.DeleteRequest{})
			e.no(err)
			if d.GetDeleted() {
				e.Error("deleted by a stranger")
			}
			list, err := o.List(o.ctx, &threadv1.ListRequest{})
			e.no(err)
			changes, err := o.Changes(o.ctx, &threadv1.ChangesRequest{})
			e.no(err)
			if len(list.GetHeads()) != 0 || len(changes.GetHeads()) != 0 || len(changes.GetDeleted()) != 0 {
				e.Errorf("%v sees %v and %v", id, list, changes)
			}
		}
		if got := e.texts(); !slices.Equal(got, []string{"1", "2"}) {
			e.Errorf("journal %v", got)
		}
		o := e.as(e.ctx, identity.Identity{Agent: e.id.Agent, User: e.id.User})
		_, err := o.Head(o.ctx, &threadv1.HeadRequest{})
		e.want(err, errdefs.ErrInvalidArgument, 0)
	}},
	{"Isolation/anonymous callers know their own session only", func(e *env) {
		agent := "anonymous " + e.id.User
		mine := e.as(e.ctx, identity.Identity{Agent: agent, Session: "mine"})
		other := e.as(e.ctx, identity.Identity{Agent: agent, Session: "other"})
		for _, o := range []*env{mine, other} {
			o.commit(o.batch(o.acquire(o.boot()), "secret of "+o.id.Session))
		}
		list, err := mine.List(mine.ctx, &threadv1.ListRequest{})
		e.no(err)
		changes, err := mine.Changes(mine.ctx, &threadv1.ChangesRequest{})
		e.no(err)
		for _, heads := range [][]*threadv1.ThreadHead{list.GetHeads(), changes.GetHeads()} {
			if len(heads) != 1 || heads[0].GetThread().GetSession() != "mine" {
				e.Errorf("the session mine is told of %v", heads)
			}
		}
		nobody := e.as(e.ctx, identity.Identity{Agent: agent})
		_, err = nobody.List(nobody.ctx, &threadv1.ListRequest{})
		e.want(err, errdefs.ErrInvalidArgument, 0)
		unknown := e.as(e.ctx, identity.Identity{Agent: agent, Session: "unknown"})
		list, err = unknown.List(unknown.ctx, &threadv1.ListRequest{})
		e.no(err)
		if len(list.GetHeads()) != 0 {
			e.Errorf("a session without a thread is told of %v", list.GetHeads())
		}
	}},
}
