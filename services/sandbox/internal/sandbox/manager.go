package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// tokenBlock is how many fencing tokens are reserved in the head at a time, so that a lease costs no write.
const tokenBlock = 1 << 20

// maxLost bounds the effects of gone generations that a head remembers.
const maxLost = 500

// Manager keeps at most one live sandbox for each bucket, and everything that is promised about it: leases and fencing, what happens when it is idle, its
// snapshots and its projection. All methods are safe for concurrent use.
type Manager struct {
	drivers   map[string]Driver
	order     []string
	store     SnapshotStore
	projector Projector
	set       Settings
	log       *slog.Logger
	now       func() time.Time

	mu    sync.Mutex
	slots map[string]*slot // by bucket key
	byID  map[string]*Live
	live  int // sandboxes that live or are being made
	// The same, for each tenant and each user.
	ofTenant map[string]int
	ofUser   map[owner]int
	waiting  int           // callers that wait for a free place
	changed  chan struct{} // closed and replaced when a place may have become free
	closed   bool

	stop   context.CancelFunc
	work   sync.WaitGroup
	saving chan struct{} // holds a token for each sandbox that is being saved on its own
}

// slot is what the manager knows about one bucket.
type slot struct {
	bucket string
	live   *Live
	busy   bool // the sandbox is being made, saved or taken down
	queue  []*ticket
}

// ticket is a caller that waits for a bucket's sandbox.
type ticket struct {
	turn      chan struct{}
	exclusive bool
}

// Live is a live sandbox. Fields below mu are guarded by the manager's mutex.
type Live struct {
	Instance   Instance
	Caps       Capabilities
	Restored   string // snapshot that it started from
	Workspace  string
	slot       *slot
	files      sync.RWMutex // held by writers of files for reading, by snapshots for writing
	projecting sync.Mutex
	saves      sync.Mutex // held while a snapshot is made and stored, and for the end of the instance
	gone       bool       // guarded by saves: the instance was destroyed
	marking    sync.Mutex // held while the head learns that there are unsaved changes, or that there are none
	marked     bool       // guarded by marking: the head knows of them

	// Guarded by Manager.mu.
	state       LiveState
	floor, next int64 // fencing tokens: the oldest valid one, and the next one to give out
	limit       int64 // end of the reserved block
	leases      map[string]*Lease
	calls       int // calls that hold the sandbox for their own duration
	lastUse     time.Time
	idle        time.Duration
	dirty       bool
	changes     int64 // counts the calls that may have changed something
	untold      bool  // earlier changes are lost, and no call was told yet
	lastChange  time.Time
	lastSave    time.Time          // when what was saved last stood still
	nextSave    time.Time          // not saved on its own before
	stopSave    context.CancelFunc // while it is saved on its own
	parent      string             // newest snapshot of this line
	projection  string
	running     int
	inFlight    map[string]chan struct{} // effects of file changes that are being made
}

// LiveState says what a live sandbox does.
type LiveState int

// The states of a live sandbox.
const (
	LiveRunning LiveState = iota + 1
	LivePaused
	LiveStopping
	LiveLost
)

// Lease is the right of one holder.
type Lease struct {
	ID        string
	Token     int64
	Expires   time.Time
	Exclusive bool
	duration  time.Duration
}

// NewManager returns a manager that is not started. The first available driver in order is the default.
func NewManager(drivers []Driver, store SnapshotStore, projector Projector, set Settings, log *slog.Logger, now func() time.Time) *Manager {
	m := &Manager{
		drivers: map[string]Driver{}, store: store, projector: projector, set: set, log: log, now: now,
		slots: map[string]*slot{}, byID: map[string]*Live{}, changed: make(chan struct{}),
		ofTenant: map[string]int{}, ofUser: map[owner]int{}, saving: make(chan struct{}, maxSaving),
	}
	for _, d := range drivers {
		m.drivers[d.Name()] = d
		m.order = append(m.order, d.Name())
	}
	return m
}

// Start adopts what earlier processes of the service have left, and begins to look after sandboxes.
func (m *Manager) Start(ctx context.Context) error {
	for _, name := range m.order {
		live, lost, err := m.drivers[name].Adopt(ctx)
		if err != nil {
			return fmt.Errorf("driver %s: %w", name, err)
		}
		for _, in := range live {
			if err := m.adopt(ctx, m.drivers[name], in); err != nil {
				return err
			}
		}
		for _, l := range lost {
			m.log.Warn("a sandbox did not survive", "sandbox", l.Spec.ID, "bucket", l.Spec.Bucket, "execs", len(l.Records))
			if err := m.rememberLost(ctx, l.Spec, l.Records, false); err != nil {
				return err
			}
		}
	}
	ctx, m.stop = context.WithCancel(context.WithoutCancel(ctx))
	m.work.Go(func() { m.lookAfter(ctx) })
	return nil
}

// Stop lets go of all sandboxes. They go on under their supervisors.
func (m *Manager) Stop(context.Context) error {
	m.mu.Lock()
	m.closed = true
	m.wakeAll()
	m.mu.Unlock()
	if m.stop != nil {
		m.stop()
	}
	m.work.Wait()
	var err error
	for _, d := range m.drivers {
		err = errors.Join(err, d.Close())
	}
	return err
}

// adopt takes over an instance. Its leases are gone with the process that had given them out, so their tokens are fenced.
func (m *Manager) adopt(ctx context.Context, d Driver, in Instance) error {
	spec := in.Spec()
	head, err := m.reserve(ctx, spec.Bucket, func(h *Head) { h.Generation = max(h.Generation, spec.Generation) })
	if err != nil {
		return err
	}
	l := m.newLive(d, in, head)
	// What it has changed since its last snapshot is known only if this version of the service has kept it.
	l.dirty, l.marked = true, head.Unsaved != nil && head.Unsaved.Generation == spec.Generation
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slot(spec.Bucket)
	if s.live != nil {
		return fmt.Errorf("bucket %s has two live sandboxes, %s and %s", spec.Bucket, s.live.Instance.Spec().ID, spec.ID)
	}
	l.slot, s.live = s, l
	m.byID[spec.ID] = l
	m.occupy(spec.Bucket, 1)
	m.log.Info("adopted a sandbox", "sandbox", spec.ID, "bucket", spec.Bucket)
	return nil
}

func (m *Manager) newLive(d Driver, in Instance, head Head) *Live {
	l := &Live{
		Instance: in, Caps: d.Capabilities(), Restored: in.Spec().Restored, Workspace: WorkspaceDir, state: LiveRunning,
		floor: head.Token - tokenBlock + 1, next: head.Token - tokenBlock + 1, limit: head.Token,
		leases: map[string]*Lease{}, inFlight: map[string]chan struct{}{}, lastUse: m.now(), lastChange: m.now(), lastSave: m.now(), idle: m.set.IdleTimeout, parent: head.Snapshot,
		untold: head.untold(),
	}
	if dir := in.Spec().HostDir; dir != "" {
		l.Workspace = dir
	}
	return l
}

// slot returns the slot of a bucket. The caller holds mu.
func (m *Manager) slot(bucket string) *slot {
	s := m.slots[bucket]
	if s == nil {
		s = &slot{bucket: bucket}
		m.slots[bucket] = s
	}
	return s
}

// drop forgets a slot that says nothing. The caller holds mu.
func (m *Manager) drop(s *slot) {
	if s.live == nil && !s.busy && len(s.queue) == 0 && m.slots[s.bucket] == s {
		delete(m.slots, s.bucket)
	}
}

// wake lets the waiters whose turn it may be look again. The caller holds mu.
func (s *slot) wake() {
	for _, t := range s.queue {
		select {
		case t.turn <- struct{}{}:
		default:
		}
		if t.exclusive {
			return // those behind it wait for it
		}
	}
}

// freed tells those that wait for a place. The caller holds mu.
func (m *Manager) freed() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// wakeAll lets every waiter look again. The caller holds mu.
func (m *Manager) wakeAll() {
	for _, s := range m.slots {
		for _, q := range s.queue {
			select {
			case q.turn <- struct{}{}:
			default:
			}
		}
	}
	m.freed()
}

// Drivers returns the drivers in their order.
func (m *Manager) Drivers() (out []Driver) {
	for _, n := range m.order {
		out = append(out, m.drivers[n])
	}
	return out
}

// DefaultDriver is the driver that is used when a request names none. Empty: none is available.
func (m *Manager) DefaultDriver(ctx context.Context) string {
	if m.set.DefaultDriver != "" {
		return m.set.DefaultDriver
	}
	for _, n := range m.order {
		if available(m.drivers[n].Probe(ctx)) {
			return n
		}
	}
	return ""
}

func available(features []Feature) bool {
	for _, f := range features {
		if f.Required && !f.OK {
			return false
		}
	}
	return true
}

// Count says how many sandboxes live, and how many may.
func (m *Manager) Count() (live, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.live, m.set.MaxSandboxes
}

func newID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:16]) }
