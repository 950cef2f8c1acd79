package supervisor

import (
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

const (
	// maxFinished and maxFinishedBytes bound what is remembered of finished execs: records with output, oldest forgotten first. Records of effects
	// outlive their output: they are what makes a repeat harmless.
	maxFinished      = 512
	maxFinishedBytes = 256 << 20
	// maxEffects bounds the records of effects. Effect ids older than six days are refused by the callers, so forgetting starts long after.
	maxEffects = 20_000
	// maxRunning bounds execs that run at a time in one sandbox.
	maxRunning = 64
)

// Server is the supervisor of one instance.
type Server struct {
	dir     string
	spec    sandbox.Spec
	spawner Spawner
	journal *journal
	logger  *slog.Logger
	shell   string

	lastUsed atomic.Int64

	mu       sync.Mutex
	execs    map[string]*execution
	effects  map[string]*execution
	order    []*execution // finished ones, oldest first
	running  int
	stopping bool
}

func newServer(dir string, spec sandbox.Spec, spawner Spawner, shell string, logger *slog.Logger) (*Server, error) {
	j, err := openJournal(dir)
	if err != nil {
		return nil, err
	}
	s := &Server{
		dir: dir, spec: spec, spawner: spawner, journal: j, logger: logger, shell: shell,
		execs: map[string]*execution{}, effects: map[string]*execution{},
	}
	s.touch()
	for _, r := range spec.Records {
		e := &execution{log: newLog(dir, 0), done: make(chan struct{}), record: r}
		e.log.end = r.Exit.StdoutBytes + r.Exit.StderrBytes
		e.log.close()
		close(e.done)
		s.execs[r.ID], s.effects[r.Effect] = e, e
		if err := j.write(r); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *Server) touch() { s.lastUsed.Store(time.Now().UnixNano()) }

// begin records and starts a command, or finds the exec that its effect id belongs to.
func (s *Server) begin(cmd *sandbox.Command) (e *execution, repeated bool, err error) {
	if err := cmd.Validate(); err != nil {
		return nil, false, err
	}
	s.mu.Lock()
	if s.stopping {
		s.mu.Unlock()
		return nil, false, lost("the sandbox is being destroyed")
	}
	if old := s.effects[cmd.Effect]; old != nil && cmd.Effect != "" {
		s.mu.Unlock()
		if r := old.snapshot(); r.Hash != cmd.Hash {
			return nil, false, sandbox.Errorf(errdefs.ErrAborted, sandbox.ReasonEffectMismatch,
				"another command was recorded under this effect id").With("effect", cmd.Effect).With("exec", r.ID)
		}
		return old, true, nil
	}
	select {
	case <-s.spawner.Done():
		s.mu.Unlock()
		return nil, false, lost("the sandbox died")
	default:
	}
	if s.running >= maxRunning {
		s.mu.Unlock()
		return nil, false, sandbox.Errorf(errdefs.ErrResourceExhausted, sandbox.ReasonLimitReached,
			"%d commands run in this sandbox, which is the limit", maxRunning).With("limit", "execs")
	}
	e = &execution{
		log: newLog(s.dir, cmd.LogBytes), done: make(chan struct{}),
		record: sandbox.Record{
			ID: "x" + strings.ToLower(rand.Text()[:16]), Effect: cmd.Effect, Hash: cmd.Hash, Title: title(cmd), Background: cmd.Background,
			Start: time.Now(), Generation: s.spec.Generation, Exit: sandbox.Exit{State: sandbox.StateRunning},
		},
	}
	// Before the fork: a command that may have run must be known to have run.
	if err := s.journal.write(e.record); err != nil {
		s.mu.Unlock()
		return nil, false, errdefs.New(errdefs.ErrUnavailable, sandbox.Domain, "", "the command could not be recorded, so it was not started: %w", err)
	}
	s.running++
	s.execs[e.record.ID] = e
	if cmd.Effect != "" {
		s.effects[cmd.Effect] = e
	}
	s.mu.Unlock()
	s.start(e, cmd)
	return e, false, nil
}

// retire counts a finished exec and forgets the oldest when there are too many.
func (s *Server) retire(e *execution) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.order = append(s.order, e)
	var bytes int64
	for _, o := range s.order {
		bytes += o.log.kept()
	}
	for len(s.order) > maxFinished || bytes > maxFinishedBytes && len(s.order) > 1 {
		old := s.order[0]
		s.order = s.order[1:]
		bytes -= old.log.kept()
		old.log.discard()
		r := old.snapshot()
		if r.Effect == "" || len(s.effects) > maxEffects {
			delete(s.execs, r.ID)
			delete(s.effects, r.Effect)
		}
	}
}

// find looks an exec up by its id or effect id.
func (s *Server) find(id string) (*execution, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.execs[id]; e != nil {
		return e, nil
	}
	if e := s.effects[id]; e != nil && id != "" {
		return e, nil
	}
	return nil, sandbox.Errorf(errdefs.ErrNotFound, sandbox.ReasonExecNotFound, "no exec %q in this sandbox", id).With("exec", id)
}

// listPage is how many records one message holds: each may carry an answer of some 16 KiB.
const listPage = 200

// list returns a page of all records, oldest first, and where the next one begins.
func (s *Server) list(from int64) (page []sandbox.Record, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]sandbox.Record, 0, len(s.execs))
	for _, e := range s.execs {
		out = append(out, e.snapshot())
	}
	sortRecords(out)
	out = out[min(max(from, 0), int64(len(out))):]
	if len(out) > listPage {
		return out[:listPage], from + listPage
	}
	return out, 0
}

// count is how many execs run.
func (s *Server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running
}

// note keeps or removes the record of an effect that is no command.
func (s *Server) note(r sandbox.Record) error {
	r.Generation = s.spec.Generation
	if err := s.journal.write(r); err != nil {
		return errdefs.New(errdefs.ErrUnavailable, sandbox.Domain, "", "the effect could not be recorded: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Effect == "" || r.Exit.State == sandbox.StateLost {
		delete(s.execs, r.ID)
		delete(s.effects, r.Effect)
		return nil
	}
	if len(s.effects) >= maxEffects && s.effects[r.Effect] == nil {
		s.forgetOldest()
	}
	e := &execution{log: newLog(s.dir, 0), done: make(chan struct{}), record: r}
	e.log.close()
	close(e.done)
	s.execs[r.ID], s.effects[r.Effect] = e, e
	return nil
}

// forgetOldest makes room among the effects. The caller holds mu.
func (s *Server) forgetOldest() {
	var oldest *execution
	for _, e := range s.effects {
		if r := e.snapshot(); r.Exit.State != sandbox.StateRunning && (oldest == nil || r.Start.Before(oldest.record.Start)) {
			oldest = e
		}
	}
	if oldest != nil {
		delete(s.execs, oldest.record.ID)
		delete(s.effects, oldest.record.Effect)
	}
}

func (s *Server) signal(id string, signal int) error {
	e, err := s.find(id)
	if err != nil {
		return err
	}
	if signal < 1 || signal > 64 {
		return sandbox.Errorf(errdefs.ErrInvalidArgument, sandbox.ReasonCommandInvalid, "%d is not the number of a signal", signal)
	}
	select {
	case <-e.done:
		return sandbox.Errorf(errdefs.ErrFailedPrecondition, sandbox.ReasonExecEnded, "exec %q has ended", id).With("exec", id)
	default:
	}
	e.mu.Lock()
	child := e.child
	e.mu.Unlock()
	if child == nil {
		return sandbox.Errorf(errdefs.ErrUnavailable, sandbox.ReasonExecEnded, "exec %q has not started yet", id).RetryIn(100 * time.Millisecond)
	}
	if signal == int(unix.SIGKILL) {
		child.Kill()
		return nil
	}
	return child.Signal(signal)
}

// stop ends everything. The records stay on disk until the directory is removed.
func (s *Server) stop() error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	return s.spawner.Close()
}

// idle says that nothing runs and that nobody has asked for anything for d.
func (s *Server) idle(d time.Duration) bool {
	s.mu.Lock()
	running := s.running
	s.mu.Unlock()
	return running == 0 && time.Since(time.Unix(0, s.lastUsed.Load())) > d
}

func lost(why string) error {
	return sandbox.Errorf(errdefs.ErrUnavailable, sandbox.ReasonSandboxLost, "%s", why)
}

// stored is the form in which a driver hands an instance to its supervisor.
type stored struct {
	Spec   sandbox.Spec    `json:"spec"`
	Config json.RawMessage `json:"config,omitempty"`
}
