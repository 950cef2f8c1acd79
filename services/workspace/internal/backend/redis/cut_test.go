package redis_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// proxy passes connections on until it is told to cut them.
type proxy struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (p *proxy) serve(to string) {
	for {
		c, err := p.Accept()
		if err != nil {
			return
		}
		up, err := net.Dial("tcp", to)
		if err != nil {
			_ = c.Close()
			continue
		}
		p.mu.Lock()
		p.conns = append(p.conns, c, up)
		p.mu.Unlock()
		pass := func(a, b net.Conn) {
			_, _ = io.Copy(a, b)
			_, _ = a.Close(), b.Close()
		}
		go pass(c, up)
		go pass(up, c)
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

// Connections that are cut in the middle of changes lose none that was acknowledged, and make none twice that has an effect id.
func TestCut(t *testing.T) {
	url := testkit.Redis(t)
	address, database, _ := strings.Cut(strings.TrimPrefix(url, "redis://"), "/")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	var serving sync.WaitGroup
	serving.Go(func() { p.serve(address) })
	t.Cleanup(func() { _ = l.Close(); p.cut(); serving.Wait() })
	s := open(t, redis.Config{URL: "redis://" + l.Addr().String() + "/" + database, Timeout: 2 * time.Second})
	var wait sync.WaitGroup
	const writers, rounds = 4, 25
	for w := range writers {
		wait.Go(func() {
			for r := range rounds {
				line := string(rune('a'+w)) + strings.Repeat("-", r) + "\n"
				once := files.Call{Author: "ana", Effect: files.Effect{ID: line, Hash: "h"}}
				testkit.Eventually(t, 30*time.Second, func() error {
					_, err := view(s).Append(t.Context(), once, fsops.PathOf("log"), []byte(line), false)
					if err != nil && !errors.Is(err, errdefs.ErrUnavailable) {
						t.Errorf("append: %v", err)
					}
					return err
				})
				if r%5 == 2 {
					p.cut()
				}
			}
		})
	}
	wait.Wait()
	got, err := read(t.Context(), open(t, redis.Config{URL: url}), "log")
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]int{}
	for line := range strings.Lines(got) {
		have[line]++
	}
	if len(have) != writers*rounds {
		t.Errorf("%d lines, want %d", len(have), writers*rounds)
	}
	for line, n := range have {
		if n != 1 {
			t.Errorf("line %q is there %d times", line, n)
		}
	}
}
