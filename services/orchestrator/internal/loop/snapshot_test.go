package loop_test

import (
	"bytes"
	"fmt"
	"os"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/testing/protocmp"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

var deeply = cmp.Options{protocmp.Transform(), cmp.Exporter(func(reflect.Type) bool { return true }), cmpopts.EquateEmpty()}

func snapshot(t testing.TB, thread *loop.Thread) []byte {
	t.Helper()
	data, err := thread.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestASnapshotStandsForEverythingBeforeIt takes a snapshot of random threads after every event and folds the rest onto it: the state must be the one that
// all events lead to. Every field of the state must have been set in one of them, so that none can be forgotten in the snapshot.
func TestASnapshotStandsForEverythingBeforeIt(t *testing.T) {
	set := map[string]bool{}
	for seed := range uint64(24) {
		events := randomJournal(t, seed, 60)
		all := rebuilt(t, events)
		want := snapshot(t, all)
		live, deep := &loop.Thread{}, seed%8 < 2 // bytes alone don't show what a snapshot leaves out
		for k := 0; k <= len(events); k++ {
			if k > 0 {
				fold(t, live, events[k-1:k])
			}
			from := restored(t, live)
			if deep {
				noteFields(set, reflect.ValueOf(live))
				if diff := cmp.Diff(live, from, deeply); diff != "" {
					t.Fatalf("seed %d, snapshot at %d (-live +restored):\n%s", seed, k, diff)
				}
			}
			fold(t, from, events[k:])
			if !bytes.Equal(snapshot(t, from), want) || deep && k%5 == 0 && !cmp.Equal(all, from, deeply) {
				t.Fatalf("seed %d, snapshot at %d, then the rest (-all +restored):\n%s", seed, k, cmp.Diff(all, from, deeply))
			}
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[loop.Thread](), reflect.TypeFor[loop.Run](), reflect.TypeFor[loop.Call](), reflect.TypeFor[loop.Task](), reflect.TypeFor[loop.Entry](), reflect.TypeFor[loop.ModelCall]()} {
		for i := range of.NumField() {
			if name := of.Name() + "." + of.Field(i).Name; !set[name] {
				t.Errorf("no random thread has %s, so that nothing says whether snapshots keep it", name)
			}
		}
	}
}

// noteFields notes the fields of the package's structs that are not zero.
func noteFields(set map[string]bool, v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			noteFields(set, v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			noteFields(set, v.Index(i))
		}
	case reflect.Struct:
		if v.Type().PkgPath() != reflect.TypeFor[loop.Thread]().PkgPath() {
			return
		}
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				set[v.Type().Name()+"."+v.Type().Field(i).Name] = true
			}
			noteFields(set, v.Field(i))
		}
	}
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	data := snapshot(t, rebuilt(t, randomJournal(t, 1, 30)))
	refused := func(what string, format uint32, data []byte) {
		t.Helper()
		if _, err := loop.Restore(format, data); err == nil {
			t.Errorf("%s is taken", what)
		}
	}
	for i := 0; i < len(data); i += 7 {
		bad := bytes.Clone(data)
		bad[i] ^= 1
		refused(fmt.Sprintf("a snapshot with another byte %d", i), loop.Format, bad)
		refused(fmt.Sprintf("a snapshot cut at %d", i), loop.Format, data[:i])
	}
	refused("a snapshot of a newer format", loop.Format+1, data)
	refused("one with more behind it", loop.Format, append(bytes.Clone(data), ' '))
}

// TestFormat holds form and fold to what is in journals already: a journal that was written once, and the snapshot of its end that was written then. When they
// differ, old checkpoints would stand for another state than their events do, and Format must change. GANTRY_UPDATE=1 writes the files of a new format.
func TestFormat(t *testing.T) {
	events, file := fmt.Sprintf("testdata/format%d.events", loop.Format), fmt.Sprintf("testdata/format%d.snapshot", loop.Format)
	if os.Getenv("GANTRY_UPDATE") != "" {
		made := randomJournal(t, 4, 80)
		for name, data := range map[string][]byte{events: delimited(t, made), file: snapshot(t, rebuilt(t, made))} {
			if err := os.WriteFile(name, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(name string) []byte {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	want, in := &loop.Thread{}, bytes.NewReader(read(events))
	for in.Len() > 0 {
		ev := &threadv1.Event{}
		if err := protodelim.UnmarshalFrom(in, ev); err != nil {
			t.Fatal(err)
		}
		fold(t, want, []*threadv1.Event{ev})
	}
	got, err := loop.Restore(loop.Format, read(file))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, deeply); diff != "" {
		t.Error(diff)
	}
}

// delimited writes events one after the other.
func delimited(t testing.TB, events []*threadv1.Event) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, ev := range events {
		if _, err := protodelim.MarshalTo(&b, ev); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// TestWhatAThreadRemembersIsBounded runs a thread for long: what it remembers beside the conversation must not grow, and must still be right.
func TestWhatAThreadRemembersIsBounded(t *testing.T) {
	thread, early, late := &loop.Thread{}, 0, 0
	const runs = 1_200
	for run := range runs {
		fold(t, thread, startOf(t, thread, run, loop.Settings{}))
		id := messageID(&loop.Run{ID: thread.Run.ID, Step: 1})
		call := id + "/write0"
		for _, p := range []*payload{
			prepared(), dispatchedModel(), answer(id, "", "write"), decided(call, loop.Allow), sent(call), taskStarted(fmt.Sprint("task", run)), result(call, failed, fmt.Sprint("no ", run)),
			delivered(fmt.Sprint("task", run)), prepared(), dispatchedModel(), answer(id+"b", "done"),
			{Kind: &threadv1.EventPayload_PermissionChanged{PermissionChanged: &threadv1.PermissionChanged{AddedRule: "allow(read_file)"}}},
			ended(&threadv1.RunEnded{State: threadv1.RunState_RUN_STATE_COMPLETED, Reason: loop.ReasonDone}), compacted(thread.Seq + 12),
		} {
			fold(t, thread, eventsOf(thread, move{payloads: []*payload{p}}))
		}
		switch run {
		case runs / 2:
			early = len(snapshot(t, thread))
		case runs - 1:
			late = len(snapshot(t, thread))
		}
		if !thread.CallIDKnown(call) || !thread.Knows(fmt.Sprint("r", run)) || thread.Knows(fmt.Sprint("r", run-loop.KnownRuns)) {
			t.Fatalf("run %d is not known, or one of long ago still is", run)
		}
	}
	if late > early+early/20 {
		t.Errorf("the snapshot has %d bytes after %d runs and %d after %d", early, runs/2, late, runs)
	}
	if got := len(thread.Tasks); got != loop.KeptTasks {
		t.Errorf("%d tasks that have ended are kept", got)
	}
	if len(thread.Rules) != 1 {
		t.Errorf("the rules are %q", thread.Rules)
	}
}
