package threadtest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// fill commits texts "1", "2", …, one a batch.
func (e *env) fill(n int) held {
	e.Helper()
	h := e.acquire(e.boot())
	for i := range n {
		e.commit(e.batch(h, fmt.Sprint(i+1)))
	}
	return h
}

var readCases = []testCase{
	{"Scan/from a sequence, with limit and types", func(e *env) {
		h := e.fill(5)
		r := e.batch(h, "6")
		r.Events[0].Type = "x/y"
		e.commit(r)
		for _, tt := range []struct {
			request *threadv1.ScanRequest
			want    string
			more    bool
		}{
			{&threadv1.ScanRequest{AfterSeq: 3}, "4 5 6", false},
			{&threadv1.ScanRequest{AfterSeq: 6}, "", false},
			{&threadv1.ScanRequest{Limit: 2}, "1 2", true},
			{&threadv1.ScanRequest{Limit: 6}, "1 2 3 4 5 6", false},
			{&threadv1.ScanRequest{Types: []string{"x/y"}}, "6", false},
			{&threadv1.ScanRequest{FromCheckpoint: true, AfterSeq: 4}, "5 6", false},
		} {
			events, end, err := e.scan(tt.request)
			e.no(err)
			var got []string
			for _, ev := range events {
				got = append(got, textOf(ev))
			}
			if strings.Join(got, " ") != tt.want || end.GetMore() != tt.more {
				e.Errorf("%v gives %v, more %v; want %q, %v", tt.request, got, end.GetMore(), tt.want, tt.more)
			}
		}
		_, _, err := e.scan(&threadv1.ScanRequest{AfterSeq: 7})
		e.want(err, errdefs.ErrOutOfRange, threadv1.ErrorReason_ERROR_REASON_CURSOR_INVALID)
	}},
	{"Scan/from the checkpoint", func(e *env) {
		h := e.fill(3)
		for range 2 {
			r := e.batch(h)
			r.Events = []*threadv1.Event{{Id: r.GetBatchId(), Payload: &threadv1.EventPayload{Kind: &threadv1.EventPayload_CheckpointWritten{
				CheckpointWritten: &threadv1.CheckpointWritten{ThroughSeq: 3, Inline: []byte("projection")}}}}}
			e.commit(r)
		}
		e.commit(e.batch(h, "6"))
		events, end, err := e.scan(&threadv1.ScanRequest{FromCheckpoint: true})
		e.no(err)
		if len(events) != 2 || events[0].GetSeq() != 5 || events[0].GetType() != "checkpoint/written" || end.GetHead().GetCheckpointSeq() != 5 {
			e.Errorf("%d events from %v, head %v", len(events), events, end.GetHead())
		}
	}},
	{"Follow/the past, then what comes, then the end", func(e *env) {
		h := e.fill(2)
		stream, err := e.Follow(e.ctx, &threadv1.FollowRequest{AfterSeq: 1, MaxWait: durationpb.New(time.Second)})
		e.no(err)
		got := []string{}
		for {
			m, err := stream.Recv()
			if err == io.EOF {
				break
			}
			e.no(err)
			switch item := m.GetItem().(type) {
			case *threadv1.FollowResponse_Event:
				got = append(got, textOf(item.Event))
			case *threadv1.FollowResponse_CaughtUp:
				got = append(got, fmt.Sprint("caught up at ", item.CaughtUp.GetHead().GetSeq()))
				e.commit(e.batch(h, "3", "4"))
			case *threadv1.FollowResponse_End:
				got = append(got, fmt.Sprint("end at ", item.End.GetAfterSeq()))
			}
		}
		if want := []string{"2", "caught up at 2", "3", "4", "end at 4"}; !slices.Equal(got, want) {
			e.Errorf("followed %v, want %v", got, want)
		}
		ctx, cancel := context.WithCancel(e.ctx)
		defer cancel()
		stream, err = e.Follow(ctx, &threadv1.FollowRequest{MaxWait: durationpb.New(0)})
		e.no(err)
		n := 0
		for _, err = stream.Recv(); err == nil; _, err = stream.Recv() {
			n++
		}
		if err != io.EOF || n != 6 {
			e.Errorf("without a wait: %d messages, then %v; want 4 events, caught up, end", n, err)
		}
	}},
	{"List and Changes/this user's threads", func(e *env) {
		a, b := e.session("a"), e.session("b")
		ha := a.fill(1)
		b.fill(1)
		changes, err := e.Changes(e.ctx, &threadv1.ChangesRequest{})
		e.no(err)
		if len(changes.GetHeads()) != 2 || changes.GetHeads()[1].GetThread().GetSession() != "b" {
			e.Errorf("changes %v", changes)
		}
		a.commit(a.batch(ha, "2"))
		page, err := e.List(e.ctx, &threadv1.ListRequest{PageSize: 1})
		e.no(err)
		if len(page.GetHeads()) != 1 || page.GetHeads()[0].GetThread().GetSession() != "a" || page.GetNextPageToken() == "" {
			e.Errorf("page %v", page)
		}
		page, err = e.List(e.ctx, &threadv1.ListRequest{PageSize: 1, PageToken: page.GetNextPageToken()})
		e.no(err)
		if len(page.GetHeads()) != 1 || page.GetHeads()[0].GetThread().GetSession() != "b" || page.GetNextPageToken() != "" {
			e.Errorf("page %v", page)
		}
		_, err = b.Delete(b.ctx, &threadv1.DeleteRequest{})
		e.no(err)
		changes, err = e.Changes(e.ctx, &threadv1.ChangesRequest{Cursor: changes.GetCursor()})
		e.no(err)
		if len(changes.GetHeads()) != 1 || changes.GetHeads()[0].GetSeq() != 2 || len(changes.GetDeleted()) != 1 || changes.GetDeleted()[0].GetSession() != "b" || changes.GetMore() {
			e.Errorf("changes %v", changes)
		}
		_, err = e.Changes(e.ctx, &threadv1.ChangesRequest{Cursor: "nonsense"})
		e.want(err, errdefs.ErrOutOfRange, threadv1.ErrorReason_ERROR_REASON_CURSOR_INVALID)
	}},
	{"Export/whole lines, with blobs and a hash", func(e *env) {
		data := []byte(strings.Repeat("image ", 300_000))
		put, err := e.PutBlob(e.ctx, &threadv1.PutBlobRequest{Data: data})
		e.no(err)
		h := e.fill(2)
		r := e.batch(h, "see")
		r.Events[0].GetPayload().GetMessageAppended().GetMessage().Blocks = []*threadv1.ContentBlock{
			{Block: &threadv1.ContentBlock_Media{Media: &threadv1.Media{MimeType: "image/png", BlobSha256: put.GetSha256()}}}}
		e.commit(r)
		stream, err := e.Export(e.ctx, &threadv1.ExportRequest{IncludeBlobs: true})
		e.no(err)
		var text strings.Builder
		var end *threadv1.ExportEnd
		for end == nil {
			m, err := stream.Recv()
			e.no(err)
			if lines := m.GetLines(); lines != "" && !strings.HasSuffix(lines, "\n") {
				e.Error("a message ends in the middle of a line")
			}
			text.WriteString(m.GetLines())
			end = m.GetEnd()
		}
		if sum := sha256.Sum256([]byte(text.String())); end.GetEvents() != 3 || end.GetSha256() != hex.EncodeToString(sum[:]) {
			e.Errorf("end %v", end)
		}
		var kinds []string
		var blob []byte
		for line := range strings.Lines(text.String()) {
			var l struct{ Type, Data string }
			e.no(json.Unmarshal([]byte(line), &l))
			kinds = append(kinds, l.Type)
			part, err := base64.StdEncoding.DecodeString(l.Data)
			e.no(err)
			blob = append(blob, part...)
		}
		if kinds = slices.Compact(kinds); !slices.Equal(kinds, []string{"thread", "event", "blob"}) || string(blob) != string(data) {
			e.Errorf("lines of types %v, a blob of %d bytes, want %d", kinds, len(blob), len(data))
		}
	}},
}
