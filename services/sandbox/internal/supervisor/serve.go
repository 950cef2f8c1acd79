package supervisor

import (
	"errors"
	"net"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// serve answers connections until the listener is closed.
func (s *Server) serve(listener *net.UnixListener, destroyed func()) {
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			if !sameUser(conn) {
				return
			}
			s.handle(conn, destroyed)
		}()
	}
}

// sameUser refuses connections of other users. The directory's mode does that already; this holds if somebody loosens it.
func sameUser(conn *net.UnixConn) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		ok = err == nil && int(cred.Uid) == os.Geteuid()
	})
	return err == nil && ok
}

// handle answers one request.
func (s *Server) handle(conn *net.UnixConn, destroyed func()) {
	var req request
	if _, err := readFrame(conn, &req); err != nil {
		return
	}
	s.touch()
	var resp response
	var err error
	switch req.Op {
	case opPing:
		resp.Running = s.count()
		select {
		case <-s.spawner.Done():
			err = lost("the sandbox died")
		default:
		}
	case opExec:
		s.exec(conn, req)
		return
	case opAttach:
		var e *execution
		if e, err = s.find(req.Exec); err == nil {
			s.follow(conn, e, req.Offset, true)
			return
		}
	case opList:
		resp.Records, resp.Offset = s.list(req.Offset)
	case opLookup:
		var e *execution
		if e, err = s.find(req.Exec); err == nil {
			resp.Records = []sandbox.Record{e.snapshot()}
		}
	case opNote:
		if req.Record != nil {
			err = s.note(*req.Record)
		}
	case opSignal:
		err = s.signal(req.Exec, req.Signal)
	case opFiles:
		s.files(conn)
		return
	case opFreeze:
		err = s.spawner.Freeze()
	case opThaw:
		err = s.spawner.Thaw()
	case opDestroy:
		err = s.stop()
	default:
		err = errdefs.New(errdefs.ErrUnimplemented, sandbox.Domain, sandbox.ReasonNotImplemented, "the supervisor is too old for %q", req.Op)
	}
	resp.Error = toWire(err)
	_ = writeFrame(conn, resp, nil)
	if req.Op == opDestroy && err == nil {
		destroyed()
	}
}

// exec starts a command and follows it.
func (s *Server) exec(conn *net.UnixConn, req request) {
	if req.Command == nil {
		req.Command = &sandbox.Command{}
	}
	e, repeated, err := s.begin(req.Command)
	if err != nil {
		_ = writeFrame(conn, response{Error: toWire(err)}, nil)
		return
	}
	s.follow(conn, e, 0, repeated)
}

// follow sends the output from an offset on and then the exit, while it takes input from the other direction.
func (s *Server) follow(conn *net.UnixConn, e *execution, offset int64, repeated bool) {
	if writeFrame(conn, response{Exec: e.snapshot().ID, Repeated: repeated}, nil) != nil {
		return
	}
	gone := make(chan struct{})
	var inputs sync.WaitGroup
	defer inputs.Wait()
	defer conn.Close()
	inputs.Go(func() { defer close(gone); s.input(conn, e) })

	buf := make([]byte, 64<<10)
	for {
		stream, at, n, wait, end := e.log.read(offset, buf)
		if n > 0 {
			if writeFrame(conn, response{Stream: stream, Offset: at, Skipped: at - offset}, buf[:n]) != nil {
				return
			}
			offset = at + int64(n)
			continue
		}
		if end {
			break
		}
		select {
		case <-wait:
		case <-gone:
			return
		}
	}
	select {
	case <-e.done:
	case <-gone:
		return
	}
	exit := e.snapshot().Exit
	total := exit.StdoutBytes + exit.StderrBytes
	_ = writeFrame(conn, response{Offset: total, Skipped: max(total-offset, 0), Exit: &exit}, nil)
}

// input reads what the caller sends until the connection ends.
func (s *Server) input(conn *net.UnixConn, e *execution) {
	for {
		var req request
		data, err := readFrame(conn, &req)
		if err != nil {
			return
		}
		s.touch()
		switch req.Op {
		case opStdin:
			if err := e.writeStdin(data); err != nil {
				// The exit tells the caller; input that nobody reads is not an event of its own.
				continue
			}
		case opCloseStdin:
			e.closeStdin()
		}
	}
}

// files passes a handle of the workspace.
func (s *Server) files(conn *net.UnixConn) {
	dir, info, err := s.spawner.Workspace()
	if err != nil {
		_ = writeFrame(conn, response{Error: toWire(err)}, nil)
		return
	}
	defer dir.Close()
	// The handle rides on a byte of its own before the frame, since a frame may be split over several messages.
	if _, _, err := conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(dir.Fd())), nil); err != nil {
		return
	}
	_ = writeFrame(conn, response{Files: &info}, nil)
}

// receiveFile reads the byte and the handle that files sends.
func receiveFile(conn *net.UnixConn) (*os.File, error) {
	var b [1]byte
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(b[:], oob)
	if err != nil {
		return nil, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("the supervisor sent no handle")
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, errors.New("the supervisor sent no handle")
	}
	unix.CloseOnExec(fds[0])
	return os.NewFile(uintptr(fds[0]), "workspace"), nil
}

func sortRecords(records []sandbox.Record) {
	slices.SortFunc(records, func(a, b sandbox.Record) int { return a.Start.Compare(b.Start) })
}
