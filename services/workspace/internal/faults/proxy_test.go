package faults

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy stands between a store and its server and cuts connections.
type proxy struct {
	listener net.Listener
	server   string

	mu    sync.Mutex
	conns map[net.Conn]bool
	// left is after how many further pieces, in either direction, every connection is cut, once; negative: never.
	left int
	work sync.WaitGroup
}

// startProxy listens in front of the server of a URL and returns the URL by which it is reached.
func startProxy(t *testing.T, server string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: u.Host, conns: map[net.Conn]bool{}, left: -1}
	p.work.Go(p.accept)
	t.Cleanup(func() {
		l.Close()
		p.cut()
		p.work.Wait()
	})
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.server)
		if err != nil {
			in.Close()
			continue
		}
		p.mu.Lock()
		p.conns[in], p.conns[out] = true, true
		p.mu.Unlock()
		p.work.Go(func() { p.copy(out, in) })
		p.work.Go(func() { p.copy(in, out) })
	}
}

// copy passes pieces on until the connection ends, or is cut before a piece.
func (p *proxy) copy(to, from net.Conn) {
	defer p.close(to)
	defer p.close(from)
	piece := make([]byte, 32<<10)
	for {
		n, err := from.Read(piece)
		if n > 0 {
			if !p.pass() {
				p.cut()
				return
			}
			if _, err := to.Write(piece[:n]); err != nil {
				return
			}
		}
		if err == io.EOF || err != nil {
			return
		}
	}
}

// pass counts a piece and says whether it may go on.
func (p *proxy) pass() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.left < 0:
		return true
	}
	p.left--
	return p.left >= 0
}

// cutAfter cuts every connection after n pieces, and none when n is negative; new ones are let through. It says how many pieces were left, negative when it has cut.
func (p *proxy) cutAfter(n int) (left int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	left, p.left = p.left, n
	return left
}

func (p *proxy) close(c net.Conn) {
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// cut ends all connections at once, in the way of a machine that is gone.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		c.Close()
	}
}
