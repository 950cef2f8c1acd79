package storetest

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// interleavings plays random calls of clients, of good workers and of workers that have lost their leases, lets time pass and opens the store again in between, and checks that
// no task is lost, ends twice, is told of twice, or stays stuck.
func interleavings(t testkit.T, open Factory) {
	for seed := range uint64(3) {
		random := rand.New(rand.NewPCG(seed, 7))
		f := open(t)
		m := &model{T: t, random: random, engine: engineOn(f.Store), who: who("ana", "s1"), tasks: map[string]*modelTask{}}
		for range 400 {
			switch random.IntN(12) {
			case 0, 1, 2:
				m.create()
			case 3, 4:
				m.held = append(m.held, leaseAll(t, m.engine, name(random.IntN(3)), 1+random.IntN(3))...)
			case 5, 6:
				m.report()
			case 7:
				m.beat()
			case 8:
				m.cancel()
			case 9:
				f.Advance(time.Duration(random.IntN(4000)) * time.Millisecond)
				sweep(t, m.engine)
			case 10:
				m.respond()
			case 11:
				if random.IntN(5) == 0 {
					m.engine = engineOn(f.Reopen())
				}
			}
		}
		m.settle(f.Advance)
		m.check()
	}
}

// model knows what must be true, from the answers alone.
type model struct {
	testkit.T
	random *rand.Rand
	engine *task.Engine
	who    identity.Identity
	order  []string
	tasks  map[string]*modelTask
	// held are leases as workers remember them, also those that they have lost.
	held []task.Task
}

type modelTask struct {
	deliver bool
	ended   task.State
	result  string
}

func (m *model) viewer() task.Viewer { return viewer(m.who) }

func (m *model) create() {
	n := newTask(m.who, "x")
	n.MaxAttempts = 1 + m.random.IntN(3)
	if m.random.IntN(2) == 0 {
		n.ParentThread, n.Delivery = identity.Thread{Tenant: m.who.Tenant, Agent: m.who.Agent, User: m.who.User, Session: "s1"}, task.DeliverWake
	}
	if m.random.IntN(3) == 0 && len(m.order) > 0 {
		n.ParentID = m.order[m.random.IntN(len(m.order))]
	}
	if m.random.IntN(4) == 0 {
		n.Timeout = time.Duration(1+m.random.IntN(20)) * time.Second
	}
	created, err := m.engine.Create(m.Context(), n)
	switch reason := errdefs.ReasonOf(err); {
	case reason == task.ReasonParentEnded || reason == task.ReasonDepth:
		return
	case err != nil:
		m.Fatalf("create: %v", err)
	}
	m.order = append(m.order, created.Task.ID)
	m.tasks[created.Task.ID] = &modelTask{deliver: n.Delivery == task.DeliverWake}
}

// report ends a lease that a worker remembers, in some way. A refusal is fine; an acceptance must be the first one that ends the task.
func (m *model) report() {
	if len(m.held) == 0 {
		return
	}
	i := m.random.IntN(len(m.held))
	one := m.held[i]
	if m.random.IntN(3) > 0 {
		// Otherwise the worker does not notice that it is done, and will report again later.
		m.held = append(m.held[:i:i], m.held[i+1:]...)
	}
	by := task.Holder{Worker: one.Lease.Worker, Token: one.Epoch}
	text := name(m.random.IntN(10000))
	events := []task.Event{
		task.Finished{By: by, Result: &task.Result{Text: text}},
		task.Broke{By: by, Fault: task.Fault{Reason: "boom"}},
		task.Broke{By: by, Fault: task.Fault{Reason: "busy", Retryable: true}},
		task.Broke{By: by, Fault: task.Fault{Reason: "cut"}, Partial: &task.Result{Text: text}},
		task.Suspended{By: by, For: task.WaitingFor{Interactions: []task.Interaction{{ID: "i"}}}},
		task.Suspended{By: by, For: task.WaitingFor{OnChild: true}},
	}
	after, err := m.engine.Report(m.Context(), workers, one.ID, task.Call{}, events[m.random.IntN(len(events))])
	if reason := errdefs.ReasonOf(err); reason == task.ReasonLeaseLost || reason == task.ReasonEnded {
		return
	}
	if err != nil {
		m.Fatalf("report: %v", err)
	}
	if !after.State.Terminal() {
		return
	}
	known := m.tasks[one.ID]
	if known.ended != 0 {
		m.Errorf("%s had ended %s and was ended again as %s", one.ID, known.ended, after.State)
	}
	known.ended = after.State
	if after.Result != nil {
		known.result = after.Result.Text
	}
}

func (m *model) beat() {
	for _, one := range m.held {
		if m.random.IntN(2) == 0 {
			b := task.Beat{TaskID: one.ID, Token: one.Epoch, Release: m.random.IntN(6) == 0, Progress: &task.Progress{Steps: m.random.Int64N(9)}}
			if _, err := m.engine.Heartbeat(m.Context(), workers, one.Lease.Worker, []task.Beat{b}); err != nil {
				m.Fatalf("heartbeat: %v", err)
			}
		}
	}
}

func (m *model) cancel() {
	if len(m.order) == 0 || m.random.IntN(3) > 0 {
		return
	}
	id := m.order[m.random.IntN(len(m.order))]
	if _, err := m.engine.Cancel(m.Context(), m.viewer(), "b", id, task.Call{}, "random"); err != nil {
		m.Fatalf("cancel: %v", err)
	}
}

func (m *model) respond() {
	for _, id := range m.order {
		_, err := m.engine.Respond(m.Context(), m.viewer(), "b", id, task.Call{}, []task.Answer{{InteractionID: "i", Decision: "approve"}})
		switch errdefs.ReasonOf(err) {
		case "", task.ReasonInteractionNotFound, task.ReasonEnded:
		default:
			m.Fatalf("respond: %v", err)
		}
	}
}

// settle brings everything to an end: waits are answered, time passes, and a good worker finishes what it gets.
func (m *model) settle(advance func(time.Duration)) {
	for range 200 {
		m.respond()
		advance(40 * time.Second)
		sweep(m, m.engine)
		for _, one := range leaseAll(m, m.engine, "last", 64) {
			after, err := finish(m, m.engine, one, "settled")
			if err != nil {
				m.Fatalf("finish: %v", err)
			}
			m.tasks[one.ID].ended, m.tasks[one.ID].result = after.State, "settled"
		}
		listed, err := m.engine.List(m.Context(), m.viewer(), task.Query{States: []task.State{task.Pending, task.Running, task.Waiting}, Limit: 500})
		if err != nil {
			m.Fatalf("list: %v", err)
		}
		if len(listed.Tasks) == 0 {
			return
		}
	}
	m.Errorf("there are tasks that never end")
}

// check compares every task with what was answered, and the outbox with the tasks.
func (m *model) check() {
	mail := map[string]string{}
	box, err := m.engine.DueMail(m.Context(), 10000)
	if err != nil {
		m.Fatalf("outbox: %v", err)
	}
	for _, one := range box.Due {
		mail[one.TaskID] += string(one.Payload) + ";"
	}
	for id, known := range m.tasks {
		got := get(m, m.engine, m.viewer(), id)
		if !got.State.Terminal() || (known.ended != 0 && got.State != known.ended) {
			m.Errorf("%s is %s, answered was %s", id, got.State, known.ended)
		}
		if got.Result != nil && got.Result.Text != known.result {
			m.Errorf("%s has the result %q, accepted was %q", id, got.Result.Text, known.result)
		}
		want := ""
		if known.deliver {
			want = id + " " + got.State.String() + ";"
		}
		if mail[id] != want {
			m.Errorf("mail of %s is %q, want %q", id, strings.TrimSpace(mail[id]), want)
		}
		if got.ParentID == "" {
			continue
		}
		parent := get(m, m.engine, m.viewer(), got.ParentID)
		if parent.State == task.Cancelled && got.State == task.Completed && got.EndTime.After(parent.CancelTime) {
			m.Errorf("%s completed after a cancel of the task above", id)
		}
	}
	cursor := task.Cursor{}
	if listed, err := m.engine.List(m.Context(), m.viewer(), task.Query{Limit: 1}); err == nil {
		cursor.Store = listed.Cursor.Store
	}
	last := map[string]task.State{}
	for complete := false; !complete; {
		changed, err := m.engine.Changes(m.Context(), m.viewer(), cursor, "", 100)
		if err != nil {
			m.Fatalf("changes: %v", err)
		}
		for _, c := range changed.Changes {
			if before := last[c.Task.ID]; before.Terminal() && c.Task.State != before {
				m.Errorf("the log says that %s went from %s to %s", c.Task.ID, before, c.Task.State)
			}
			last[c.Task.ID] = c.Task.State
		}
		cursor, complete = changed.Cursor, changed.Complete
	}
	for id := range m.tasks {
		if got := get(m, m.engine, m.viewer(), id); last[id] != got.State {
			m.Errorf("the log ends with %s %s, the task is %s", id, last[id], got.State)
		}
	}
}
