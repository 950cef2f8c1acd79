package run

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/journal"
)

// slot is the place of a thread's actor.
type slot struct {
	actor *actor
	nudge chan struct{}
	fence bool
	// holds counts those who are about to post: the actor does not give the thread up while there are any.
	holds int
	// claimed says that the store gave the thread to this replica while the slot was there: an actor must look after it, however the one before ends, since for the
	// store the thread has an owner that lives.
	claimed bool
	// tried is closed when the first attempt to acquire the thread is over.
	tried chan struct{}
}

// Wake sees to it that the thread of the identity has an actor that looks into its mailbox, here or on its present owner.
func (m *Manager) Wake(key identity.Thread) { m.wake(key, nil, false) }

// Take is [Manager.Wake] for a task's worker: it takes the thread from an owner that holds it without the task's lease.
func (m *Manager) Take(key identity.Thread) { m.wake(key, nil, true) }

func (m *Manager) wake(key identity.Thread, claimed *journal.Thread, fence bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.slotOf(key, claimed, fence)
}

// slotOf finds or makes the slot of a thread and sees to it that its actor looks into the mailbox. Nil while the replica stops. The caller holds mu.
func (m *Manager) slotOf(key identity.Thread, claimed *journal.Thread, fence bool) *slot {
	select {
	case <-m.drain:
		if claimed != nil {
			m.work.Go(func() { _ = claimed.Release() })
		}
		return nil
	default:
	}
	if s := m.slots[key]; s != nil {
		s.fence, s.claimed = s.fence || fence, s.claimed || claimed != nil
		poke(s.nudge)
		return s
	}
	m.tenant(key.Tenant)
	s := &slot{nudge: make(chan struct{}, 1), tried: make(chan struct{}), fence: fence}
	m.slots[key] = s
	m.work.Go(func() { m.keep(key, s, claimed) })
	return s
}

// reserve takes the thread for this replica before something is posted to it, so that the replica that was called does the work and can stream it: mail without
// an owner is anybody's. Where another replica has the thread, the mail is for that one. The returned function ends the reservation.
func (m *Manager) reserve(ctx context.Context, key identity.Thread) (posted func()) {
	m.mu.Lock()
	s := m.slotOf(key, nil, false)
	if s == nil {
		m.mu.Unlock()
		return func() {}
	}
	s.holds++
	m.mu.Unlock()
	select {
	case <-s.tried:
	case <-ctx.Done():
	}
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		s.holds--
		poke(s.nudge)
		if m.slots[key] != s { // its actor gave up meanwhile
			m.slotOf(key, nil, false)
		}
	}
}

// held says whether somebody is about to post.
func (m *Manager) held(key identity.Thread) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slots[key]
	return s != nil && s.holds > 0
}

// attempted says that the attempt to acquire the thread is over. The caller holds mu.
func (s *slot) attempted() {
	select {
	case <-s.tried:
	default:
		close(s.tried)
	}
}

func poke(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// keep runs actors for a thread until there is no mail that came while one was ending.
func (m *Manager) keep(key identity.Thread, s *slot, claimed *journal.Thread) {
	for {
		m.mu.Lock()
		fence := s.fence
		s.claimed = false
		m.mu.Unlock()
		err := m.runActor(key, s, claimed, fence)
		claimed = nil
		m.mu.Lock()
		again := false
		select {
		case <-s.nudge: // mail came while the actor was ending
			again = err == nil && m.quit.Err() == nil
		default:
		}
		again = again || s.claimed && m.quit.Err() == nil
		s.actor = nil
		if !again {
			delete(m.slots, key)
		}
		close(m.changed)
		m.changed = make(chan struct{})
		m.mu.Unlock()
		if !again {
			return
		}
	}
}

// runActor acquires the thread and works on it. A thread with a live owner elsewhere is left to it: it has the mail.
func (m *Manager) runActor(key identity.Thread, s *slot, thread *journal.Thread, fence bool) (err error) {
	defer func() {
		m.mu.Lock()
		s.attempted()
		m.mu.Unlock()
	}()
	ctx := identity.NewContext(m.quit, identity.Identity{Tenant: key.Tenant, Agent: key.Agent, User: key.User, Session: key.Session, Scope: identity.ScopeSession})
	// A claim may be old by now: another actor may have worked on the thread and released it since the store answered. Acquire tells what holds now.
	if thread, err = m.owner.Confirm(ctx, thread, fence); err != nil {
		if errdefs.ReasonOf(err) != "OWNED" && ctx.Err() == nil {
			m.log.Warn("a thread could not be acquired", "thread", key.Key(), "error", err)
		}
		return err
	}
	stop := context.AfterFunc(m.quit, func() { thread.Abandon(journal.ErrLost) })
	defer stop()
	a := m.newActor(key, thread, m.drain, s.nudge)
	m.mu.Lock()
	s.actor = a
	s.attempted()
	close(m.changed)
	m.changed = make(chan struct{})
	m.mu.Unlock()
	err = a.guarded()
	a.hub.close()
	m.letGo(key, thread, err)
	return err
}

// brokenPause keeps a thread on which work broke off from going round between replicas at full speed.
const brokenPause = 2 * time.Second

// letGo ends this replica's claim to a thread. One on which work broke off is given back after a while, so that the store can hand it to somebody.
func (m *Manager) letGo(key identity.Thread, thread *journal.Thread, err error) {
	defer thread.Abandon(errActorEnded)
	if err == nil || m.quit.Err() != nil || errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrLost) || errdefs.ReasonOf(err) == "FENCED" {
		return
	}
	m.log.Error("the work on a thread broke off", "thread", key.Key(), "error", err)
	timer := time.NewTimer(brokenPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.drain:
	case <-m.quit.Done():
	}
	thread.GiveUp()
}

var errActorEnded = errors.New("the actor of the thread has ended")

// present says whether the thread has a place on this replica, with a channel that is closed at the next change of any.
func (m *Manager) present(key identity.Thread) (bool, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.slots[key] != nil, m.changed
}

// actorOf returns the actor of a thread on this replica, and a channel that is closed at the next change of any.
func (m *Manager) actorOf(key identity.Thread) (*actor, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s := m.slots[key]; s != nil {
		return s.actor, m.changed
	}
	return nil, m.changed
}
