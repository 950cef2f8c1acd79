package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
)

const (
	// listLife is how long a list of tools counts.
	listLife = 5 * time.Minute
	// sulk is how long a server that could not be used is not tried again, so that not every run waits for it.
	sulk = 10 * time.Second
	// maxEntries bounds what is remembered of servers without a connection.
	maxEntries = 1024
	// protocol is the version that is offered. Every server knows its handshake; some older ones never answer that of later versions.
	protocol = "2025-11-25"
)

var (
	errStopped = errors.New("the orchestrator is stopping")
	errFull    = errors.New("too many MCP connections are in use (setting mcp-connections)")
)

// Pool holds the connections to servers. Safe for concurrent use.
type Pool struct {
	cfg  Config
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu      sync.Mutex
	entries map[key]*entry
	open    int // connections, and those that are being made
	stopped bool
}

// entry is what is known of one server. The fields below turn belong to the pool's lock.
type entry struct {
	key    key
	server definition.Server
	// turn is held by whoever connects or lists. Capacity one.
	turn chan struct{}

	session  *session
	opening  bool
	tools    []listed
	problems []string
	listed   time.Time
	failure  error
	failed   time.Time
	busy     int
	used     time.Time
	idle     *time.Timer
}

// session is an open connection.
type session struct {
	*mcp.ClientSession
	conn  mcp.Connection
	http  *client
	close sync.Once
}

// New makes a pool. It opens nothing.
func New(cfg Config) *Pool {
	p := &Pool{cfg: cfg.complete(), entries: map[key]*entry{}}
	p.ctx, p.stop = context.WithCancel(context.Background())
	return p
}

// Stop closes all connections and ends all processes. It returns when they are gone, or with the context.
func (p *Pool) Stop(ctx context.Context) error {
	p.mu.Lock()
	p.stopped = true
	for _, e := range p.entries {
		p.drop(e, e.session)
	}
	p.mu.Unlock()
	p.stop()
	done := make(chan struct{})
	go func() { p.work.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// entry finds what is known of a server, or begins to.
func (p *Pool) entry(k key, s definition.Server) *entry {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.entries[k]
	if e == nil {
		if len(p.entries) >= maxEntries {
			p.forget()
		}
		e = &entry{key: k, server: s, turn: make(chan struct{}, 1)}
		p.entries[k] = e
	}
	e.used = p.cfg.Now()
	return e
}

// forget drops the entry without a connection that was not used for the longest time.
func (p *Pool) forget() {
	var oldest *entry
	for _, e := range p.entries {
		if e.session == nil && !e.opening && (oldest == nil || e.used.Before(oldest.used)) {
			oldest = e
		}
	}
	if oldest != nil {
		delete(p.entries, oldest.key)
	}
}

// acquire gives the connection of a server, which it opens if there is none. release must follow.
func (p *Pool) acquire(ctx context.Context, e *entry) (*session, error) {
	if s := p.current(e); s != nil {
		return s, nil
	}
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-e.turn }()
	return p.acquireInTurn(ctx, e)
}

// current takes the connection that is open, whoever has the turn: a call does not wait for a list.
func (p *Pool) current(e *entry) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e.session != nil {
		e.busy++
	}
	return e.session
}

func (p *Pool) acquireInTurn(ctx context.Context, e *entry) (*session, error) {
	s, err := p.reserve(e)
	if s != nil || err != nil {
		return s, err
	}
	s, err = p.connect(ctx, e.server)
	p.mu.Lock()
	defer p.mu.Unlock()
	e.opening = false
	if err != nil {
		p.open--
		return nil, err
	}
	if p.stopped {
		p.open--
		p.end(s)
		return nil, errStopped
	}
	e.session = s
	e.busy++
	p.work.Go(func() { // whoever ends it, it is used no longer
		_ = s.Wait()
		p.lost(e, s)
	})
	return s, nil
}

// reserve takes the open connection, or room for a new one.
func (p *Pool) reserve(e *entry) (*session, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil, errStopped
	}
	if e.session != nil {
		e.busy++
		return e.session, nil
	}
	if p.open >= p.cfg.MaxConnections && !p.evict() {
		return nil, errFull
	}
	p.open++
	e.opening = true
	p.entries[e.key] = e // it may have been forgotten meanwhile
	return nil, nil
}

// evict closes the connection that was not used for the longest time.
func (p *Pool) evict() bool {
	var oldest *entry
	for _, e := range p.entries {
		if e.session != nil && e.busy == 0 && (oldest == nil || e.used.Before(oldest.used)) {
			oldest = e
		}
	}
	if oldest != nil {
		p.drop(oldest, oldest.session)
	}
	return oldest != nil
}

// release gives a connection back. The last to do so starts its idle time.
func (p *Pool) release(e *entry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e.busy--
	e.used = p.cfg.Now()
	if e.busy > 0 || e.session == nil {
		return
	}
	s := e.session
	if e.idle != nil {
		e.idle.Stop()
	}
	e.idle = time.AfterFunc(p.cfg.Idle, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if e.busy == 0 && p.cfg.Now().Sub(e.used) >= p.cfg.Idle {
			p.drop(e, s)
		}
	})
}

// lost takes a connection that has ended out of use.
func (p *Pool) lost(e *entry, s *session) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(e, s)
}

// drop ends a connection, if it is the entry's. Callers hold the lock.
func (p *Pool) drop(e *entry, s *session) {
	if e.idle != nil {
		e.idle.Stop()
	}
	if s == nil || e.session != s {
		return
	}
	e.session = nil
	p.open--
	p.end(s)
}

// end closes a connection in the background.
func (p *Pool) end(s *session) {
	p.work.Go(func() {
		s.close.Do(func() {
			_ = s.conn.Close() // at once: closing the session alone would wait for calls that are under way
			_ = s.Close()
			if s.http != nil {
				s.http.transport.CloseIdleConnections()
			}
		})
	})
}

// holder keeps the connection that a transport opens.
type holder struct {
	mcp.Transport
	conn mcp.Connection
}

func (h *holder) Connect(ctx context.Context) (mcp.Connection, error) {
	conn, err := h.Transport.Connect(ctx)
	h.conn = conn
	return conn, err
}

// connect opens a connection within the server's time. What the context says of a caller does not reach the connection.
func (p *Pool) connect(ctx context.Context, server definition.Server) (*session, error) {
	own, cancel := context.WithTimeoutCause(p.ctx, server.StartTimeout, fmt.Errorf("it did not answer within %s", server.StartTimeout))
	defer cancel()
	defer context.AfterFunc(ctx, cancel)()
	h, s := &holder{}, &session{}
	if server.Command != "" {
		if err := p.cfg.allowed(server); err != nil {
			return nil, err
		}
		h.Transport = &stdio{server: server, log: p.cfg.Log, work: &p.work}
	} else {
		address, err := endpoint(server)
		if err != nil {
			return nil, err
		}
		var hc *http.Client
		hc, s.http = p.cfg.httpClient(server)
		h.Transport = &mcp.StreamableClientTransport{Endpoint: address, HTTPClient: hc, MaxRetries: 2, DisableStandaloneSSE: true, MaxEventSize: maxBody}
	}
	// No roots, no sampling, no elicitation: a server gets what it is called with. Input that it asks for in the middle of a call is not given by itself.
	c := mcp.NewClient(&mcp.Implementation{Name: "gantry", Version: "1"}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, MultiRoundTrip: &mcp.MultiRoundTripOptions{Disabled: true},
	})
	var err error
	s.ClientSession, err = c.Connect(own, h, &mcp.ClientSessionOptions{ProtocolVersion: protocol})
	if err != nil {
		if h.conn != nil {
			_ = h.conn.Close()
		}
		if s.http != nil {
			s.http.transport.CloseIdleConnections()
		}
		switch {
		case ctx.Err() != nil: // the caller's own time, which says why, or the caller has gone
			return nil, context.Cause(ctx)
		case own.Err() != nil:
			return nil, context.Cause(own)
		}
		return nil, err
	}
	s.conn = h.conn
	return s, nil
}
