package orchestrator_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/services/orchestrator/orchestratortest"
)

var record = flag.Bool("record", false, "record the runs of testdata/replay anew: after a change of prompts, tools or policy that is meant")

// recordings are threads of the scripted model whose journals are in testdata/replay.
var recordings = map[string]func(t *testing.T, ctx context.Context, r *orchestratortest.Replica){
	"answer": func(t *testing.T, ctx context.Context, r *orchestratortest.Replica) {
		watch(t, ctx, r, start(t, ctx, r, "hello").GetId())
	},
	"parallel": func(t *testing.T, ctx context.Context, r *orchestratortest.Replica) {
		runs := orchestratorv1.NewRunServiceClient(r.Conn)
		got, err := runs.CallAgent(ctx, &orchestratorv1.CallAgentRequest{Input: &orchestratorv1.RunInput{
			Text: "both please", Spec: &orchestratorv1.AgentSpec{PolicyRules: []string{"ask write_file(a.txt)"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := runs.ResolveInteractions(ctx, &orchestratorv1.ResolveInteractionsRequest{
			Answers: []*orchestratorv1.InteractionAnswer{{InteractionId: got.GetRun().GetInteractions()[0].GetId(), Decision: "approve"}},
		}); err != nil {
			t.Fatal(err)
		}
		watch(t, ctx, r, got.GetRun().GetId())
		watch(t, ctx, r, start(t, ctx, r, "wrong ones").GetId())
	},
	"compacted": func(t *testing.T, ctx context.Context, r *orchestratortest.Replica) {
		for range 4 {
			watch(t, ctx, r, start(t, ctx, r, "hello").GetId())
		}
		if _, err := orchestratorv1.NewThreadAdminServiceClient(r.Conn).CompactThread(ctx, &orchestratorv1.CompactThreadRequest{KeepMessages: 2}); err != nil {
			t.Fatal(err)
		}
		watch(t, ctx, r, start(t, ctx, r, "keep it").GetId())
	},
}

// TestRecordedRunsReplay makes the requests of recorded journals again. What builds prompts, offers tools and decides about calls may change, but not unnoticed: whoever means the change records anew
// with -record, and the difference is in the commit.
func TestRecordedRunsReplay(t *testing.T) {
	for name, play := range recordings {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", "replay", name+".jsonl")
			ctx, key := ctxOf(t, "ana", "s"), keyOf("ana", "s")
			if *record {
				c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
				play(t, ctx, c.Start(nil))
				var out bytes.Buffer
				for _, ev := range c.Threads.Journal(key) {
					line, err := protojson.Marshal(ev)
					if err != nil {
						t.Fatal(err)
					}
					out.Write(append(line, '\n'))
				}
				if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			c := orchestratortest.NewCluster(t, orchestratortest.Script, access.Config{})
			c.Threads.Record(key, eventsOf(t, file))
			got, err := orchestratorv1.NewThreadAdminServiceClient(c.Start(nil).Conn).ReplayThread(ctx, &orchestratorv1.ReplayThreadRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if got.GetRequests() == 0 || got.GetEqual() != got.GetRequests() {
				t.Errorf("%d of %d requests are equal", got.GetEqual(), got.GetRequests())
			}
			for _, d := range got.GetDifferences() {
				t.Errorf("event %d, %s:\n%s", d.GetSeq(), d.GetWhat(), d.GetDiff())
			}
		})
	}
}

// eventsOf reads a recorded journal.
func eventsOf(t *testing.T, file string) []*threadv1.Event {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []*threadv1.Event
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		ev := &threadv1.Event{}
		if err := protojson.Unmarshal(lines.Bytes(), ev); err != nil {
			t.Fatal(err)
		}
		out = append(out, ev)
	}
	return out
}
