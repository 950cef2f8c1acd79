package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/fsroot"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var (
	_ sandbox.Instance = (*Client)(nil)
	_ sandbox.Process  = (*process)(nil)
)

// replyTimeout bounds a plain request to the supervisor, which does no long work in any of them.
const replyTimeout = 20 * time.Second

// exitGrace is how long a supervisor may take to end after it has destroyed its sandbox.
const exitGrace = 5 * time.Second

// Client is an instance as the service sees it: the socket of its supervisor.
type Client struct {
	dir   string
	spec  sandbox.Spec
	reap  func(dir string, spec sandbox.Spec) error
	files sync.RWMutex // orders writers of the workspace

	mu   sync.Mutex
	gone bool
}

// Spec implements [sandbox.Instance].
func (c *Client) Spec() sandbox.Spec { return c.spec }

// dial opens a connection to the supervisor.
func (c *Client) dial(ctx context.Context) (*net.UnixConn, error) {
	c.mu.Lock()
	gone := c.gone
	c.mu.Unlock()
	if gone {
		return nil, lost("the sandbox was destroyed")
	}
	// Through a handle of the directory: the path of a socket may have 107 bytes only.
	dir, err := os.Open(c.dir)
	if err != nil {
		return nil, lost("the sandbox is gone")
	}
	defer dir.Close()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), socketFile))
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, sandbox.Errorf(errdefs.ErrUnavailable, sandbox.ReasonSandboxLost, "the supervisor of sandbox %q does not answer: %w", c.spec.ID, err)
	}
	return conn.(*net.UnixConn), nil
}

// call makes a plain request.
func (c *Client) call(ctx context.Context, req request) (response, error) {
	ctx, cancel := context.WithTimeout(ctx, replyTimeout)
	defer cancel()
	conn, err := c.dial(ctx)
	if err != nil {
		return response{}, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })()
	if err := writeFrame(conn, req, nil); err != nil {
		return response{}, c.broken(ctx, err)
	}
	var resp response
	if _, err := readFrame(conn, &resp); err != nil {
		return response{}, c.broken(ctx, err)
	}
	return resp, resp.Error.err()
}

// broken is the error of a connection that ended too early.
func (c *Client) broken(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return sandbox.Errorf(errdefs.ErrUnavailable, sandbox.ReasonSandboxLost, "the supervisor of sandbox %q went away: %w", c.spec.ID, err)
}

// Alive implements [sandbox.Instance].
func (c *Client) Alive(ctx context.Context) (running int, err error) {
	resp, err := c.call(ctx, request{Op: opPing})
	return resp.Running, err
}

// Exec implements [sandbox.Instance].
func (c *Client) Exec(ctx context.Context, cmd sandbox.Command) (sandbox.Process, error) {
	if err := cmd.Validate(); err != nil {
		return nil, err
	}
	return c.open(ctx, request{Op: opExec, Command: &cmd})
}

// Attach implements [sandbox.Instance].
func (c *Client) Attach(ctx context.Context, execID string, offset int64) (sandbox.Process, error) {
	return c.open(ctx, request{Op: opAttach, Exec: execID, Offset: max(offset, 0)})
}

// open starts following an exec. The context bounds the start and then ends the following; it never ends the command.
func (c *Client) open(ctx context.Context, req request) (sandbox.Process, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, err
	}
	p := &process{conn: conn, client: c, ctx: ctx}
	p.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	var resp response
	if err = writeFrame(conn, req, nil); err == nil {
		_, err = readFrame(conn, &resp)
	}
	if err != nil {
		_ = p.Close()
		return nil, c.broken(ctx, err)
	}
	if err := resp.Error.err(); err != nil {
		_ = p.Close()
		return nil, err
	}
	p.id, p.repeated = resp.Exec, resp.Repeated
	return p, nil
}

// Execs implements [sandbox.Instance].
func (c *Client) Execs(ctx context.Context) ([]sandbox.Record, error) {
	var all []sandbox.Record
	for after := int64(0); ; {
		resp, err := c.call(ctx, request{Op: opList, Offset: after})
		if err != nil {
			return nil, err
		}
		all = append(all, resp.Records...)
		if after = resp.Offset; after == 0 {
			return all, nil
		}
	}
}

// Lookup implements [sandbox.Instance].
func (c *Client) Lookup(ctx context.Context, execOrEffect string) (sandbox.Record, error) {
	resp, err := c.call(ctx, request{Op: opLookup, Exec: execOrEffect})
	if err != nil {
		return sandbox.Record{}, err
	}
	if len(resp.Records) != 1 {
		return sandbox.Record{}, errors.New("the supervisor gave no record")
	}
	return resp.Records[0], nil
}

// Note implements [sandbox.Instance].
func (c *Client) Note(ctx context.Context, r sandbox.Record) error {
	_, err := c.call(ctx, request{Op: opNote, Record: &r})
	return err
}

// Signal implements [sandbox.Instance].
func (c *Client) Signal(ctx context.Context, execID string, signal int) error {
	_, err := c.call(ctx, request{Op: opSignal, Exec: execID, Signal: signal})
	return err
}

// Freeze implements [sandbox.Instance].
func (c *Client) Freeze(ctx context.Context) error {
	_, err := c.call(ctx, request{Op: opFreeze})
	return err
}

// Thaw implements [sandbox.Instance].
func (c *Client) Thaw(ctx context.Context) error {
	_, err := c.call(ctx, request{Op: opThaw})
	return err
}

// Files implements [sandbox.Instance].
func (c *Client) Files(ctx context.Context, as sandbox.Access) (sandbox.Tree, error) {
	dir, info, err := c.workspace(ctx)
	if err != nil {
		return nil, err
	}
	opt := fsroot.Options{
		UID: info.UID, GID: info.GID, CommandUID: info.UID, Sync: info.Sync, Lock: &c.files,
		LimitBytes: c.spec.Limits.DiskBytes, LimitEntries: c.spec.Limits.DiskEntries, LimitFileBytes: c.spec.Limits.FileBytes,
	}
	switch as {
	case sandbox.AsOwner:
		if info.OwnerUID < 0 {
			_ = dir.Close()
			return nil, sandbox.Unimplemented("Project", "this driver cannot keep commands from changing files; read them from the workspace service")
		}
		opt.UID, opt.GID = info.OwnerUID, info.OwnerGID
	case sandbox.AsReader:
		opt.UID, opt.GID = -1, -1
	}
	return fsroot.New(dir, opt), nil
}

// workspace asks for a handle of the workspace.
func (c *Client) workspace(ctx context.Context) (*os.File, FilesInfo, error) {
	conn, err := c.dial(ctx)
	if err != nil {
		return nil, FilesInfo{}, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(replyTimeout))
	if err := writeFrame(conn, request{Op: opFiles}, nil); err != nil {
		return nil, FilesInfo{}, c.broken(ctx, err)
	}
	dir, err := receiveFile(conn)
	if err != nil {
		return nil, FilesInfo{}, c.broken(ctx, err)
	}
	var resp response
	if _, err := readFrame(conn, &resp); err != nil || resp.Files == nil {
		_ = dir.Close()
		return nil, FilesInfo{}, c.broken(ctx, errors.Join(err, resp.Error.err()))
	}
	return dir, *resp.Files, nil
}

// Destroy implements [sandbox.Instance]. A supervisor that does not answer is killed and its instance reaped.
func (c *Client) Destroy(ctx context.Context) error {
	_, err := c.call(ctx, request{Op: opDestroy})
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	grace := exitGrace
	if err != nil {
		grace = 0
	}
	if err := endSupervisor(c.dir, grace); err != nil {
		return err
	}
	if err := c.reap(c.dir, c.spec); err != nil {
		return err
	}
	return os.RemoveAll(c.dir)
}

// Open connects to an instance whose supervisor may be running already. It does not check that it answers.
func Open(dir string, spec sandbox.Spec, reap func(dir string, spec sandbox.Spec) error) *Client {
	return &Client{dir: filepath.Clean(dir), spec: spec, reap: reap}
}

// SetUnsaved implements [sandbox.Instance]. It is a file beside the socket, which the supervisor looks for when it considers to end.
func (c *Client) SetUnsaved(unsaved bool) error {
	name := filepath.Join(c.dir, unsavedFile)
	if !unsaved {
		if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	err := os.WriteFile(name, nil, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return lost("the sandbox is gone")
	}
	return err
}

// StoredRecords reads the records that a supervisor which is gone has left. See [ReadRecords].
func (c *Client) StoredRecords() ([]sandbox.Record, error) { return ReadRecords(c.dir) }
