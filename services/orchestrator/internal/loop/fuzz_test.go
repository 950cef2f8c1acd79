package loop_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// FuzzApply folds arbitrary events: nothing panics, an event that is refused changes nothing, and a snapshot of whatever comes out is read back.
func FuzzApply(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(delimited(f, randomJournal(f, seed, 40)))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		thread, in := &loop.Thread{}, bytes.NewReader(data)
		before := snapshot(t, thread)
		for range 200 {
			ev := &threadv1.Event{}
			if err := protodelim.UnmarshalFrom(in, ev); err != nil {
				break
			}
			ev.Seq = thread.Seq + 1 // any other is refused at once
			if err := thread.Apply(ev); err != nil {
				if !bytes.Equal(snapshot(t, thread), before) {
					t.Fatalf("refused with %v, and yet the state is another", err)
				}
				continue
			}
			thread.Next(facts)
			thread.Messages()
			thread.Stamp(ev)
			if r := thread.Run; r != nil {
				thread.Stopping(facts)
				thread.TakesResult(facts)
				r.Interactions()
			}
			before = snapshot(t, thread)
		}
		if !bytes.Equal(snapshot(t, restored(t, thread)), before) {
			t.Fatal("the snapshot is read as another state")
		}
	})
}
