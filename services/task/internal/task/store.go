package task

import (
	"context"
	"errors"
	"time"
)

// ErrNoRow is returned by look-ups of a store for what is not there. It never leaves the engine.
var ErrNoRow = errors.New("task: no such row")

// Store keeps tasks. It knows nothing of their meaning: what may happen is decided by the state machine, and the [Engine] does each call in one transaction.
//
// What an implementer must hold, and package storetest checks:
//
//   - Update runs fn in a transaction that sees its own writes. When fn returns nil and Update returns nil, everything that fn wrote is durable: it is there after the process is
//     killed and the machine loses power. When either returns an error nothing that fn wrote is there, with one exception: after an error of Update itself
//     (not of fn) whether it was kept may be unknown.
//   - Two transactions never both see the same task and both save it: the second one sees what the first wrote, or fails and is run again. fn may therefore be
//     called several times and must start afresh each time.
//   - fn's error is returned as it is. A cancelled context ends the wait for a turn; a transaction that has begun may complete.
//   - View runs fn on one consistent state that includes every Update that returned before View was called.
//   - Times are kept to the microsecond and come back in UTC. Text is any valid UTF-8 and is compared byte by byte: "Ana" is not "ana".
//   - A Tx is for the goroutine that runs fn, and ends with it.
//   - Errors of the database are of class UNAVAILABLE or INTERNAL with the database's words as private cause. A store that is closed answers UNAVAILABLE/STORE_UNAVAILABLE.
type Store interface {
	Update(ctx context.Context, fn func(Tx) error) error
	View(ctx context.Context, fn func(ReadTx) error) error
	// Listen registers a function that is called with the signals of each transaction after it is durable, of this process and of others on the same store, in any order;
	// some may be repeated, none is missed while the store is connected. It must not block and must not call the store. Stop unregisters it.
	Listen(fn func(Signal)) (stop func())
	// Close ends transactions that wait and releases everything. It may be called twice.
	Close() error
}

// Parts says what of a task is read beside its record.
type Parts uint8

// The parts. They can be added.
const (
	Bare       Parts = 0
	WithInput  Parts = 1
	WithResult Parts = 2
)

// ReadTx reads.
type ReadTx interface {
	// Now is the store's clock: the same for all replicas, and fixed within a transaction.
	Now() time.Time
	// StoreID names the store; cursors of one are not those of another. It never changes.
	StoreID() string
	// Task returns a task, or [ErrNoRow]. In an Update the row is locked until the end.
	Task(tenant, id string, parts Parts) (Task, error)
	// List returns tasks by descending Seq. See [Query].
	List(q Query) ([]Task, error)
	// CountLive returns how many tasks have not ended, of an owner, or of the tenant when owner is empty. It may stop counting at atMost.
	CountLive(tenant, owner string, atMost int) (int, error)
	// Due returns tasks whose WakeTime has come, the earliest first. Its cost does not depend on how many tasks are not due.
	Due(limit int) ([]Task, error)
	// NextWake returns the earliest WakeTime of all tasks and schedules, zero when there is none.
	NextWake() (time.Time, error)
	// Effect returns the record of an effect, or [ErrNoRow].
	Effect(bucket, id string) (Effect, error)
	// Changes returns the changes after a cursor that one who has this owner key sees, oldest first.
	Changes(tenant, owner string, after int64, limit int) ([]Change, error)
	// ChangeBounds returns the newest cursor that was given, and the highest one that was pruned; both are zero at first.
	ChangeBounds() (newest, pruned int64, err error)
	// DueMail returns mail whose time has come, the longest waiting first, and the time of the earliest mail that is not due, zero when there is none.
	DueMail(limit int) (due []Mail, next time.Time, err error)
	// Schedule returns a schedule, or [ErrNoRow]. In an Update the row is locked until the end.
	Schedule(tenant, id string) (Schedule, error)
	// Schedules returns schedules of an owner by descending Seq, those with a Seq below before when it is not zero.
	Schedules(tenant, owner string, before int64, limit int) ([]Schedule, error)
	// DueSchedules returns schedules whose next firing has come.
	DueSchedules(limit int) ([]Schedule, error)
}

// Tx reads and writes.
type Tx interface {
	ReadTx
	// Insert adds a task, with its Input, and sets its Seq, which is higher than that of every task before. The wake time is that of [Task.WakeTime]. Zero: none.
	Insert(t *Task, wake time.Time) error
	// Save replaces the record of a task that was read in this transaction. A Result that is set is stored; a nil one leaves what is stored.
	Save(t *Task, wake time.Time) error
	// Delete removes a task with its input and result.
	Delete(t *Task) error
	// Ready returns tasks of a queue that are [Task.Ready] and need this capability ("" = those that need none), by priority and age: a step of priority counts as [PriorityStep] of age. In
	// an Update on a shared store, tasks that another transaction is about to lease are left out. Its cost does not depend on how many tasks are not ready.
	Ready(tenant, queue, capability string, limit int) ([]Task, error)
	// Children returns tasks directly below one that have not ended.
	Children(tenant, parentID string) ([]Task, error)
	// Purgeable returns ended tasks, those that ended last first, after skipping the first skip. Owner empty: every owner of the tenant; tenant empty: all.
	Purgeable(q PurgeQuery) ([]Task, error)
	// Crowded returns owner keys with more than keep ended tasks.
	Crowded(keep, limit int) ([]string, error)
	// PutEffect records an effect.
	PutEffect(e Effect) error
	// AddChange appends to the change log and returns the cursor, which is higher than every one that a transaction that committed before was given.
	AddChange(c Change) (int64, error)
	// PutMail adds mail; SaveMail replaces its attempts, time and error; DeleteMail removes it. Mail of the same message id is there once.
	PutMail(m Mail) error
	SaveMail(m Mail) error
	DeleteMail(messageID, tenant string) error
	// HasMail says whether the task has mail that was not accepted.
	HasMail(tenant, taskID string) (bool, error)
	// PruneChanges removes changes made before a time and PruneEffects effects recorded before it; both remove at most limit rows and say how many.
	PruneChanges(before time.Time, limit int) (int, error)
	PruneEffects(before time.Time, limit int) (int, error)
	// InsertSchedule sets Seq; SaveSchedule replaces; DeleteSchedule removes.
	InsertSchedule(s *Schedule) error
	SaveSchedule(s *Schedule) error
	DeleteSchedule(tenant, id string) error
	// Signal is given to every listener once the transaction is durable, and to none when it fails.
	Signal(s Signal)
}

// PriorityStep is the age that one step of priority is worth.
const PriorityStep = time.Minute

// Rank orders ready tasks: the lower goes first.
func (t *Task) Rank() int64 {
	return t.CreateTime.UnixMicro() - int64(t.Priority)*PriorityStep.Microseconds()
}

// Query selects tasks. Zero fields do not count.
type Query struct {
	Tenant string
	// Owner selects tasks whose Owner or RootOwner it is. Always set by the engine.
	Owner        string
	States       []State
	Label        string
	ParentID     string
	RootID       string
	ParentThread string
	Kind         string
	ScheduleID   string
	// Before selects tasks with a lower Seq.
	Before int64
	Limit  int
	Parts  Parts
}

// PurgeQuery selects ended tasks.
type PurgeQuery struct {
	Tenant, Owner string
	EndedBefore   time.Time
	Skip, Limit   int
}

// Effect is the record of a call that was made under an effect id.
type Effect struct {
	Bucket, ID string
	Hash       []byte
	Outcome    []byte
	Time       time.Time
}

// Change is one entry of the change log: a task as it was after a change.
type Change struct {
	Cursor int64
	// Owner is who sees the entry; a task with two owner keys makes two entries.
	Owner  string
	Task   Task
	Purged bool
	Time   time.Time
}

// Mail is a message on its way to a thread.
type Mail struct {
	MessageID string
	Tenant    string
	TaskID    string
	// Thread is the key of the thread.
	Thread  string
	Kind    string
	Payload []byte
	Wake    bool
	// Attempts that failed, when the next one is due, and what the last one said.
	Attempts  int
	NextTime  time.Time
	LastError string
}

// SignalKind says what a signal is about.
type SignalKind string

// The kinds.
const (
	// SignalReady: a task can be leased.
	SignalReady SignalKind = "ready"
	// SignalChanged: a task has a new entry in the change log.
	SignalChanged SignalKind = "changed"
	// SignalWake: the earliest wake time may be earlier than before: Time.
	SignalWake SignalKind = "wake"
	// SignalMail: there is mail to post.
	SignalMail SignalKind = "mail"
)

// Signal tells who waits that something happened. It holds names only.
type Signal struct {
	Kind       SignalKind
	Tenant     string
	TaskID     string
	Owner      string
	RootOwner  string
	Queue      string
	Capability string
	Time       time.Time
}
