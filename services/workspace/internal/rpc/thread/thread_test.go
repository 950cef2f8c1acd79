package thread

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// TestReasons holds the journal's words against the enum of the proto.
func TestReasons(t *testing.T) {
	for _, reason := range []string{
		journal.ReasonThreadNotFound, journal.ReasonFenced, journal.ReasonSequenceConflict, journal.ReasonOwned, journal.ReasonOwnerExpired, journal.ReasonBatchMismatch,
		journal.ReasonMessageMismatch, journal.ReasonMessageConsumed, journal.ReasonTooLarge, journal.ReasonJournalDamaged, journal.ReasonBlobNotFound,
		journal.ReasonCursorInvalid, journal.ReasonNoForkPoint, journal.ReasonThreadExists,
	} {
		if threadv1.ErrorReason_value["ERROR_REASON_"+reason] == 0 {
			t.Errorf("%s is not in the enum", reason)
		}
	}
	if got := string(threadv1.File_gantry_thread_v1_error_reason_proto.Package()); got != journal.Domain {
		t.Errorf("domain %s, package %s", journal.Domain, got)
	}
}

// TestTypesOfPayloads derives the type of every payload that there is.
func TestTypesOfPayloads(t *testing.T) {
	kinds := (*threadv1.EventPayload)(nil).ProtoReflect().Descriptor().Oneofs().ByName("kind").Fields()
	for i := range kinds.Len() {
		payload := new(threadv1.EventPayload)
		m := payload.ProtoReflect()
		m.Set(kinds.Get(i), m.NewField(kinds.Get(i)))
		got := typeOf(payload)
		if kinds.Get(i).Name() == "other" {
			if got != "" {
				t.Errorf("other has the type %q", got)
			}
			continue
		}
		if a, b, ok := strings.Cut(got, "/"); !ok || a+"_"+b != string(kinds.Get(i).Name()) {
			t.Errorf("%s has the type %q", kinds.Get(i).Name(), got)
		}
	}
	if got := typeOf(&threadv1.EventPayload{Kind: &threadv1.EventPayload_CheckpointWritten{}}); got != journal.TypeCheckpoint {
		t.Errorf("a checkpoint has the type %q", got)
	}
}

func TestBlobsOfPayloads(t *testing.T) {
	sum := func(s string) string { return journal.HashOf([]byte(s)).String() }
	media := func(s string) *threadv1.ContentBlock {
		return &threadv1.ContentBlock{Block: &threadv1.ContentBlock_Media{Media: &threadv1.Media{BlobSha256: sum(s)}}}
	}
	said := &threadv1.Event{Id: "e", Payload: &threadv1.EventPayload{Kind: &threadv1.EventPayload_MessageAppended{MessageAppended: &threadv1.MessageAppended{
		Message: &threadv1.Message{Blocks: []*threadv1.ContentBlock{media("one"), {Block: &threadv1.ContentBlock_ToolResult{ToolResult: &threadv1.ToolResult{
			Media: []*threadv1.Media{{BlobSha256: sum("two")}, {Data: []byte("inline")}}}}}}}}}}}
	forwarded := &threadv1.Event{Id: "e", Payload: &threadv1.EventPayload{Kind: &threadv1.EventPayload_SubagentEvent{SubagentEvent: &threadv1.SubagentEvent{Event: said}}}}
	for name, tt := range map[string]struct {
		event    *threadv1.Event
		optional bool
	}{"said here": {said, false}, "forwarded": {forwarded, true}} {
		got, err := eventOf(tt.event)
		if err != nil || len(got.Blobs) != 2 || got.Blobs[0] != (journal.BlobRef{SHA256: journal.HashOf([]byte("one")), Optional: tt.optional}) {
			t.Errorf("%s: blobs %v, %v", name, got.Blobs, err)
		}
	}
	bad := proto.CloneOf(said)
	bad.GetPayload().GetMessageAppended().GetMessage().Blocks[0].GetMedia().BlobSha256 = "../../etc"
	if _, err := eventOf(bad); err == nil {
		t.Error("a hash that is none was taken")
	}
}

// TestUnknownPayloadsAreKept commits what a newer writer may send: fields that this program does not know.
func TestUnknownPayloadsAreKept(t *testing.T) {
	payload := new(threadv1.EventPayload)
	payload.ProtoReflect().SetUnknown([]byte{0xba, 0x3e, 0x03, 'n', 'e', 'w'}) // field 999
	e, err := eventOf(&threadv1.Event{Id: "e", Type: "new/kind", Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	e.Seq, e.PayloadHash = 1, journal.HashOf(e.Payload)
	back, err := eventProto(&e)
	if err != nil || !proto.Equal(back.GetPayload(), payload) {
		t.Errorf("%v came back as %v, %v", payload, back.GetPayload(), err)
	}
	e.Payload = []byte{0xff}
	if _, err := eventProto(&e); err == nil {
		t.Error("a payload that cannot be decoded was given")
	}
}

func TestTitles(t *testing.T) {
	for text, want := range map[string]string{
		"": "", " \n\t": "", "hello": "hello", "\n\n  two  words \nmore": "two words", strings.Repeat("ä", 81): strings.Repeat("ä", 79) + "…",
	} {
		e := &threadv1.Event{Payload: &threadv1.EventPayload{Kind: &threadv1.EventPayload_InputReceived{InputReceived: &threadv1.InputReceived{
			Message: &threadv1.Message{Blocks: []*threadv1.ContentBlock{{Block: &threadv1.ContentBlock_Text{Text: text}}}}}}}}
		if got := titleOf(e); got != want {
			t.Errorf("title of %q is %q, want %q", text, got, want)
		}
	}
}

// TestStopEndsWaits stops a server under a follow and a long poll: both end in good order, long before their time and the server's.
func TestStopEndsWaits(t *testing.T) {
	store, err := journalsqlite.Open(t.Context(), journalsqlite.Config{Path: filepath.Join(t.TempDir(), "journal.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s, conn := serve(t, store)
	c := threadv1.NewThreadServiceClient(conn)
	ctx := identity.NewContext(t.Context(), identity.Identity{Agent: "a", User: "u", Session: "s"})
	owner := &threadv1.Owner{Id: "r/a"}
	if _, err := c.Heartbeat(ctx, &threadv1.HeartbeatRequest{Owner: owner}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Acquire(ctx, &threadv1.AcquireRequest{Owner: owner}); err != nil {
		t.Fatal(err)
	}
	stream, err := c.Follow(ctx, &threadv1.FollowRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); err != nil || m.GetCaughtUp() == nil {
		t.Fatalf("%v, %v", m, err)
	}
	polled := make(chan error, 1)
	go func() {
		// One that comes when the server has gone does not wait for another one.
		_, err := c.ClaimExpired(ctx, &threadv1.ClaimExpiredRequest{Owner: owner, MaxWait: durationpb.New(time.Minute)}, grpc.WaitForReady(false))
		polled <- err
	}()
	begin := time.Now()
	if err := s.Stop(context.Background()); err != nil {
		t.Error(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if m, err := stream.Recv(); err != nil || m.GetEnd() == nil {
		t.Errorf("the follow ended with %v, %v", m, err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("after the end: %v", err)
	}
	// The poll may have come too late for the server, which is no fault; it must not hang.
	select {
	case <-polled:
	case <-time.After(10 * time.Second):
		t.Error("the long poll goes on")
	}
}

// serve starts a server with the chain of every server.
func serve(t *testing.T, store journal.Store) (*server.Server, grpc.ClientConnInterface) {
	t.Helper()
	auth, err := access.New(access.Config{}, access.Options{})
	if err != nil {
		t.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		t.Fatal(err)
	}
	network := inproc.New()
	s, err := server.New(server.Config{Address: "memory:thread"}, chain, network)
	if err != nil {
		t.Fatal(err)
	}
	threadv1.RegisterThreadServiceServer(s.Registrar(), New(store))
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err := client.Dial("memory:thread", network)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return s, conn
}
