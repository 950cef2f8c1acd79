package sqlstore

import (
	"time"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// pollEvery is how often a Wait on a store with other writers looks again where nobody tells it of them.
const pollEvery = 250 * time.Millisecond

// Notifier is a [DB] whose processes tell each other of changes.
type Notifier interface {
	// Hear makes the database call changed for spaces that another process has changed, and missed when it can't know which, until it is closed. It is called once. It
	// returns how often who waits looks all the same: for a process that died before it told, or a connection that is lost.
	Hear(changed func(files.Space), missed func()) (poll time.Duration)
	// Tell tells the other processes that a space has changed. It does not wait.
	Tell(space files.Space)
}

// hear joins the other processes, where the database lets them talk.
func (s *Store) hear() {
	if s.db.Capabilities().Shared {
		s.poll = pollEvery
	}
	if n, ok := s.db.(Notifier); ok {
		s.poll = n.Hear(s.wake, s.wakeAll)
	}
}

// changed wakes those who wait for a space, here and elsewhere.
func (s *Store) changed(space files.Space) {
	s.wake(space)
	if n, ok := s.db.(Notifier); ok {
		n.Tell(space)
	}
}

// wake wakes those who wait for a space.
func (s *Store) wake(space files.Space) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c, ok := s.signals[space]; ok {
		close(c)
		delete(s.signals, space)
	}
}

// wakeAll wakes all who wait.
func (s *Store) wakeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for space, c := range s.signals {
		close(c)
		delete(s.signals, space)
	}
}
