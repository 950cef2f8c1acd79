package supervisor

import (
	"context"
	"io"
	"net"
	"sync"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// process is one connection that follows an exec.
type process struct {
	conn     *net.UnixConn
	client   *Client
	ctx      context.Context
	stop     func() bool
	id       string
	repeated bool
	ended    bool

	wmu sync.Mutex
}

func (p *process) ID() string     { return p.id }
func (p *process) Repeated() bool { return p.repeated }

// Recv implements [sandbox.Process].
func (p *process) Recv() (sandbox.Event, error) {
	if p.ended {
		return sandbox.Event{}, io.EOF
	}
	var resp response
	data, err := readFrame(p.conn, &resp)
	if err != nil {
		return sandbox.Event{}, p.client.broken(p.ctx, err)
	}
	if err := resp.Error.err(); err != nil {
		return sandbox.Event{}, err
	}
	if resp.Exit != nil {
		p.ended = true
		return sandbox.Event{Exit: resp.Exit}, nil
	}
	return sandbox.Event{Output: &sandbox.Output{Stream: resp.Stream, Offset: resp.Offset, Skipped: resp.Skipped, Data: data}}, nil
}

// WriteStdin implements [sandbox.Process].
func (p *process) WriteStdin(b []byte) error { return p.send(request{Op: opStdin}, b) }

// CloseStdin implements [sandbox.Process].
func (p *process) CloseStdin() error { return p.send(request{Op: opCloseStdin}, nil) }

func (p *process) send(req request, data []byte) error {
	p.wmu.Lock()
	defer p.wmu.Unlock()
	if err := writeFrame(p.conn, req, data); err != nil {
		return sandbox.Errorf(errdefs.ErrFailedPrecondition, sandbox.ReasonStdinClosed, "the command has ended: %w", err)
	}
	return nil
}

// Close implements [sandbox.Process].
func (p *process) Close() error {
	p.stop()
	return p.conn.Close()
}
