package sandbox

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Exec starts a command in a sandbox that the caller holds.
func (m *Manager) Exec(ctx context.Context, l *Live, cmd Command) (Process, error) {
	m.mu.Lock()
	paused := l.state == LivePaused
	m.mu.Unlock()
	if paused {
		return nil, Errorf(errdefs.ErrFailedPrecondition, ReasonSandboxPaused, "the sandbox is paused; resume it first")
	}
	if cmd.Effect != "" {
		if r, err := m.void(ctx, l.Instance.Spec().Bucket, cmd.Effect); err != nil {
			return nil, err
		} else if r != nil {
			return nil, Errorf(errdefs.ErrFailedPrecondition, ReasonExecLost,
				"this command was started in a sandbox that is gone, and its effect is unknown or void; repeat it under a new effect id if that is wanted").
				With("effect", cmd.Effect).With("exec", r.ID).With("state", string(r.Exit.State))
		}
	}
	// A snapshot stands still for the moment that it takes; commands begin before or after it.
	l.files.RLock()
	defer l.files.RUnlock()
	if err := m.change(ctx, l); err != nil {
		return nil, err
	}
	p, err := l.Instance.Exec(ctx, cmd)
	if err == nil && cmd.Background {
		m.mu.Lock()
		l.running++ // until the next look: the sandbox is not idle when the call has left
		m.mu.Unlock()
	}
	return p, err
}

// void finds an effect of a generation that is gone.
func (m *Manager) void(ctx context.Context, bucket, effect string) (*Record, error) {
	head, err := m.store.Head(ctx, bucket)
	if err != nil {
		return nil, err
	}
	for _, r := range slices.Backward(head.Lost) {
		if r.Effect == effect || r.ID == effect {
			return &r, nil
		}
	}
	return nil, nil
}

// Lookup tells what became of an exec: in the live sandbox, in the current snapshot, or in a generation that is gone (void).
func (m *Manager) Lookup(ctx context.Context, bucket, execOrEffect string) (r Record, void bool, err error) {
	if l, err := m.Find(bucket, ""); err == nil {
		r, err := l.Instance.Lookup(ctx, execOrEffect)
		if err == nil {
			return r, false, nil
		}
		if errdefs.ReasonOf(err) != ReasonExecNotFound && !errors.Is(err, errdefs.ErrUnavailable) {
			return r, false, err
		}
	}
	lost, err := m.void(ctx, bucket, execOrEffect)
	if err != nil {
		return r, false, err
	}
	if lost != nil {
		return *lost, true, nil
	}
	head, err := m.store.Head(ctx, bucket)
	if err != nil {
		return r, false, err
	}
	if head.Snapshot != "" {
		s, err := m.store.Manifest(ctx, bucket, head.Snapshot)
		if err != nil {
			return r, false, err
		}
		for _, r := range s.Records {
			if r.Effect == execOrEffect || r.ID == execOrEffect {
				return r, false, nil
			}
		}
	}
	return r, false, Errorf(errdefs.ErrNotFound, ReasonExecNotFound, "no exec %q in this bucket", execOrEffect).With("exec", execOrEffect)
}

// Files opens the workspace of a sandbox that the caller holds.
func (m *Manager) Files(ctx context.Context, l *Live) (Tree, error) {
	return l.Instance.Files(ctx, AsCommand)
}

// Changing marks the beginning of a change of files from outside: it waits for a snapshot that is being taken. The caller calls done.
func (m *Manager) Changing(ctx context.Context, l *Live) (done func(), err error) {
	l.files.RLock()
	if err := m.change(ctx, l); err != nil {
		l.files.RUnlock()
		return nil, err
	}
	return l.files.RUnlock, nil
}

// Project brings the projection of the caller's bucket into a sandbox that the caller holds once, by a lease with this token or by the call itself.
func (m *Manager) Project(ctx context.Context, l *Live, token int64, include []string, runtime bool) (ProjectionResult, error) {
	if !l.Caps.Projection {
		return ProjectionResult{}, Unimplemented("Project", "this driver cannot keep commands from changing files; read them from the workspace service")
	}
	if m.projector == nil {
		return ProjectionResult{}, Errorf(errdefs.ErrFailedPrecondition, ReasonDriverNotConfigured, "no workspace service is configured, so there is nothing to project")
	}
	l.projecting.Lock()
	defer l.projecting.Unlock()
	want, err := m.projector.List(ctx, include, runtime)
	if err != nil {
		return ProjectionResult{}, err
	}
	m.mu.Lock()
	have, others := l.projection, m.others(l, token)
	m.mu.Unlock()
	switch {
	case have == want.Fingerprint && have != "":
		return ProjectionResult{Fingerprint: have, Files: len(want.Files), Warnings: want.Warnings}, nil
	case have != "" && others > 0:
		return ProjectionResult{Fingerprint: have, Deferred: true, Files: len(want.Files), Warnings: want.Warnings}, nil
	}
	// What is projected is in no snapshot, so this is no change that could be lost.
	l.files.RLock()
	defer l.files.RUnlock()
	tree, err := l.Instance.Files(ctx, AsOwner)
	if err != nil {
		return ProjectionResult{}, err
	}
	defer tree.Close()
	res, err := project(ctx, tree, m.projector, want)
	if err != nil {
		return res, err
	}
	m.mu.Lock()
	l.projection = res.Fingerprint
	m.mu.Unlock()
	return res, nil
}

// others counts who else uses the sandbox. The caller's own call counts once, and so does its lease. The caller holds mu.
func (m *Manager) others(l *Live, token int64) int {
	n := l.calls - 1
	for _, lease := range l.leases {
		if lease.Token != token {
			n++
		}
	}
	return n
}

// Status describes a live sandbox.
type Status struct {
	Spec          Spec
	State         LiveState
	Restored      string
	Workspace     string
	Holders       int
	Running       int
	LastUse       time.Time
	ReleaseTime   time.Time // zero while it is used
	Projection    string
	Dirty         bool
	ExclusiveHeld bool
}

// Status describes one live sandbox.
func (m *Manager) Status(l *Live) Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := Status{
		Spec: l.Instance.Spec(), State: l.state, Restored: l.Restored, Workspace: l.Workspace, Holders: len(l.leases), Running: l.running,
		LastUse: l.lastUse, Projection: l.projection, Dirty: l.dirty, ExclusiveHeld: l.exclusive(m.now()) != nil,
	}
	if s.Holders+s.Running+l.calls == 0 {
		s.ReleaseTime = l.lastUse.Add(l.idle)
	}
	return s
}

// List describes the live sandboxes whose bucket match accepts, ordered by id.
func (m *Manager) List(match func(bucket string) bool) (out []Status) {
	for _, l := range m.all() {
		if match(l.Instance.Spec().Bucket) {
			out = append(out, m.Status(l))
		}
	}
	slices.SortFunc(out, func(a, b Status) int { return cmp.Compare(a.Spec.ID, b.Spec.ID) })
	return out
}
