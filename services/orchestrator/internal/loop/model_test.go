package loop_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/loop"
)

// TestModel visits the states that a run can be in, whatever the model, the tools, policy and people do and whenever the owner dies, and checks in each that what
// the state machine wants is sound, that the journal and the conversation are, that a rebuilt state is the live one, and that the run comes to an end from there.
// Runs of one step are visited whole, with one kind of disturbance at a time; longer and more disturbed ones to a number of moves.
func TestModel(t *testing.T) {
	const whole = 100
	for name, c := range map[string]struct {
		most         spent
		steps, moves int
	}{
		"nobody disturbs":    {spent{}, 1, whole},
		"a cancel":           {spent{stops: 1}, 1, whole},
		"an interrupt":       {spent{interrupts: 1}, 1, whole},
		"the owner dies":     {spent{deaths: 1}, 1, whole},
		"a text and a task":  {spent{steers: 1, tasks: 1}, 1, whole},
		"an overflow":        {spent{overflows: 1}, 1, whole},
		"all that stops":     {spent{stops: 1, interrupts: 1}, 1, 7},
		"everything at once": {spent{1, 1, 1, 1, 1, 1}, 2, 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := &explorer{t: t, seen: map[string]bool{}, leads: map[string]bool{}}
			x.visit(node{events: newMachine(t, loop.Settings{MaxSteps: c.steps}).events, world: world{most: c.most}})
			depth := 0
			for ; depth < c.moves && len(x.border) > 0; depth++ {
				level := x.border
				x.border = nil
				for _, n := range level {
					x.expand(n)
				}
			}
			t.Logf("%d states, %d transitions, %d ends within %d moves", len(x.seen), x.transitions, x.ends, depth)
			if c.moves == whole && len(x.border) > 0 || x.ends < 10 {
				t.Errorf("%d states are still to be visited, %d ends were reached", len(x.border), x.ends)
			}
		})
	}
}

// node is a state by the events and moves that led to it.
type node struct {
	events []*threadv1.Event
	trace  []string
	world
}

type explorer struct {
	t           *testing.T
	seen        map[string]bool
	leads       map[string]bool // the states from which the run is known to end
	border      []node
	transitions int
	ends        int
}

// expand makes every move that is possible in a state.
func (x *explorer) expand(n node) {
	n.thread = rebuilt(x.t, n.events)
	for _, m := range n.moves() {
		x.transitions++
		next := node{events: slices.Clip(n.events), trace: append(slices.Clip(n.trace), m.name), world: world{spent: n.spent.plus(m.spends), most: n.most}}
		next.events = append(next.events, eventsOf(n.thread, m)...)
		x.visit(next)
	}
}

// visit checks a state that was not seen before.
func (x *explorer) visit(n node) {
	n.thread = rebuilt(x.t, n.events)
	key := stateKey(&n.world)
	if x.seen[key] {
		return
	}
	x.seen[key] = true
	wrong := func(err error) {
		if err != nil {
			x.t.Fatalf("after %q: %v", n.trace, err)
		}
	}
	wrong(soundAction(n.thread, n.thread.Next(facts)))
	wrong(soundJournal(n.events))
	wrong(soundConversation(n.thread))
	if len(x.seen)%4 == 0 { // snapshots have a test of their own
		if got := stateKey(&world{thread: restored(x.t, n.thread), spent: n.spent}); got != key {
			wrong(fmt.Errorf("the state from a snapshot is\n%s\nand from the events\n%s", got, key))
		}
	}
	for name, pick := range map[string]func([]move) move{"gives in": givesIn, "resists": resists} {
		end := world{thread: rebuilt(x.t, n.events)}
		var way []string
		for at := name + key; end.thread.Run != nil && !x.leads[at]; at = name + stateKey(&end) {
			if way = append(way, at); len(way) > 60 {
				wrong(fmt.Errorf("the run does not end while everybody %s", name))
			}
			fold(x.t, end.thread, eventsOf(end.thread, pick(end.moves())))
		}
		for _, at := range way {
			x.leads[at] = true
		}
		wrong(soundConversation(end.thread))
	}
	if n.thread.Run == nil {
		x.ends++
		return
	}
	x.border = append(x.border, n)
}

// givesIn picks what brings a run to its end soonest, resists what keeps it from that; both let tools return and people answer.
func givesIn(moves []move) move {
	return pick(moves, loop.Approved, loop.Retry, "text", "decide allow", "decide allow allow", "ok")
}

func resists(moves []move) move {
	return pick(moves, loop.Denied, loop.Skip, "blank", "decide ask", "decide ask ask", "error")
}

// pick takes the first move that has one of the names, else the first.
func pick(moves []move, names ...string) move {
	for _, name := range names {
		for _, m := range moves {
			if m.name == name {
				return m
			}
		}
	}
	return moves[0]
}

func eventsOf(t *loop.Thread, m move) []*threadv1.Event {
	run := ""
	if t.Run != nil {
		run = t.Run.ID
	}
	var out []*threadv1.Event
	for i, p := range m.payloads {
		out = append(out, &threadv1.Event{Schema: 1, Seq: t.Seq + int64(i) + 1, RunId: run, Payload: p, Required: true})
	}
	return out
}

func fold(t testing.TB, thread *loop.Thread, events []*threadv1.Event) {
	t.Helper()
	for _, ev := range events {
		if err := thread.Apply(ev); err != nil {
			t.Fatalf("apply %v: %v", ev, err)
		}
	}
}

func rebuilt(t testing.TB, events []*threadv1.Event) *loop.Thread {
	t.Helper()
	thread := &loop.Thread{}
	fold(t, thread, events)
	return thread
}

// restored is the state from its snapshot.
func restored(t testing.TB, thread *loop.Thread) *loop.Thread {
	t.Helper()
	data, err := thread.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	out, err := loop.Restore(loop.Format, data)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// stateKey names a state without the places in the journal: two states of one name have the same future.
func stateKey(w *world) string {
	var b strings.Builder
	t := w.thread
	fmt.Fprintf(&b, "%v\n", w.spent)
	for _, r := range []*loop.Run{t.Run, t.Latest} {
		if r == nil {
			continue
		}
		fmt.Fprintf(&b, "%s %v step %d model %t answered %t blank %t/%d finish %q cancel %t interrupted %t stop %t stuck %q ended %s %s failures %v children %d\n", r.ID, r.State, r.Step, r.Model != nil,
			r.Answered, r.Blank, r.Blanks, r.Finish, r.Cancel != nil, r.Interrupted, r.Stop, r.Stuck(), r.Ended.GetState(), r.Ended.GetReason(), r.Failures(), r.Children)
		for _, c := range r.Calls {
			fmt.Fprintf(&b, " %s %q sent %t/%d question %q %q result %v\n", c.Call.GetId(), c.Decision, c.Dispatched != nil, c.Dispatches, c.Interaction.GetKind(),
				c.Resolution.GetResolution(), c.Result.GetStatus())
		}
	}
	for _, list := range [][]loop.Entry{t.Conversation, t.Held()} {
		for _, e := range list {
			fmt.Fprintf(&b, " %d%s%d", e.Message.GetRole(), e.Message.GetOrigin(), len(loop.CallsOf(e.Message)))
		}
		b.WriteByte('\n')
	}
	for _, task := range t.Tasks {
		fmt.Fprintf(&b, " %s %t", task.Started.GetTaskId(), task.Ended)
	}
	return b.String()
}
