package supervisor

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// maxFrame bounds one message: a command with its script, base64 in JSON, plus room.
const maxFrame = 8 << 20

// Operations of a request.
const (
	opPing    = "ping"
	opExec    = "exec"
	opAttach  = "attach"
	opList    = "list"
	opLookup  = "lookup"
	opSignal  = "signal"
	opNote    = "note"
	opFiles   = "files"
	opFreeze  = "freeze"
	opThaw    = "thaw"
	opDestroy = "destroy"

	// Further messages on the connection of an exec.
	opStdin      = "stdin"
	opCloseStdin = "close_stdin"
)

// request is what the service sends.
type request struct {
	Op      string           `json:"op"`
	Command *sandbox.Command `json:"command,omitempty"`
	Exec    string           `json:"exec,omitempty"`
	Offset  int64            `json:"offset,omitempty"`
	Signal  int              `json:"signal,omitempty"`
	Record  *sandbox.Record  `json:"record,omitempty"`
	// Data is the payload that follows the header, for stdin.
	Data []byte `json:"-"`
}

// response is what the supervisor sends: one for a plain operation; started, outputs and exit for an exec.
type response struct {
	Error    *wireError `json:"error,omitempty"`
	Exec     string     `json:"exec,omitempty"`
	Repeated bool       `json:"repeated,omitempty"`
	Stream   int        `json:"stream,omitempty"`
	// Offset is the position of output; in a list, where the next page begins, 0 after the last one.
	Offset  int64            `json:"offset,omitempty"`
	Running int              `json:"running,omitempty"`
	Skipped int64            `json:"skipped,omitempty"`
	Exit    *sandbox.Exit    `json:"exit,omitempty"`
	Records []sandbox.Record `json:"records,omitempty"`
	Files   *FilesInfo       `json:"files,omitempty"`
	// Data is the payload that follows the header, for output.
	Data []byte `json:"-"`
}

// FilesInfo says how the workspace handle that is passed beside it is to be used.
type FilesInfo struct {
	// UID and GID are the user of the commands as the host sees it; OwnerUID and OwnerGID own what commands cannot change. Negative: not apart.
	UID      int `json:"uid"`
	GID      int `json:"gid"`
	OwnerUID int `json:"owner_uid"`
	OwnerGID int `json:"owner_gid"`
	// Sync: the workspace is on a disk that outlives the instance.
	Sync bool `json:"sync,omitempty"`
}

// wireError carries a typed error between the processes. The class travels by its text.
type wireError struct {
	Class   string            `json:"class"`
	Domain  string            `json:"domain"`
	Reason  string            `json:"reason"`
	Message string            `json:"message"`
	Meta    map[string]string `json:"meta,omitempty"`
}

func toWire(err error) *wireError {
	if err == nil {
		return nil
	}
	var e *errdefs.Error
	if !errors.As(err, &e) {
		return &wireError{Class: errdefs.ErrInternal.Error(), Domain: sandbox.Domain, Message: err.Error()}
	}
	return &wireError{Class: errdefs.ClassOf(err).Error(), Domain: e.Domain, Reason: e.Reason, Message: e.Public(), Meta: e.Meta}
}

func (w *wireError) err() error {
	if w == nil {
		return nil
	}
	class := errdefs.ErrInternal
	for _, c := range errdefs.Classes() {
		if c.Error() == w.Class {
			class = c
		}
	}
	e := errdefs.New(class, w.Domain, w.Reason, "%s", w.Message)
	e.Meta = w.Meta
	return e
}

// writeFrame sends a header and its payload in one write.
func writeFrame(w io.Writer, header any, data []byte) error {
	h, err := json.Marshal(header)
	if err != nil {
		return err
	}
	if len(h)+len(data) > maxFrame {
		return fmt.Errorf("a message of %d bytes is too large", len(h)+len(data))
	}
	buf := make([]byte, 8, 8+len(h)+len(data))
	binary.BigEndian.PutUint32(buf, uint32(len(h)))
	binary.BigEndian.PutUint32(buf[4:], uint32(len(data)))
	_, err = w.Write(append(append(buf, h...), data...))
	return err
}

// readFrame receives what writeFrame sent.
func readFrame(r io.Reader, header any) (data []byte, err error) {
	var size [8]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	h, d := binary.BigEndian.Uint32(size[:]), binary.BigEndian.Uint32(size[4:])
	if uint64(h)+uint64(d) > maxFrame {
		return nil, errors.New("a message is too large")
	}
	buf := make([]byte, h+d)
	if _, err := io.ReadFull(r, buf); err != nil {
		return nil, err
	}
	return buf[h:], json.Unmarshal(buf[:h], header)
}
