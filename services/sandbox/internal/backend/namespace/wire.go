package namespace

import "github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"

// setup is the first message from the supervisor to init, sent when init is in its control groups.
type setup struct {
	RootFS string         `json:"rootfs,omitempty"`
	Limits sandbox.Limits `json:"limits"`
	// SingleUser: only one user is mapped, so commands and init share it.
	SingleUser bool `json:"single_user,omitempty"`
}

// Operations of a command message.
const (
	opSpawn  = "spawn"
	opSignal = "signal"
)

// order is a message from the supervisor. The files of a spawn ride along: stdin, stdout, stderr, the control group leaf, and the script if any.
// Arguments are bytes so that JSON cannot make them much longer: a message must fit into one packet.
type order struct {
	ID     int      `json:"id"`
	Op     string   `json:"op"`
	Argv   [][]byte `json:"argv,omitempty"`
	Env    [][]byte `json:"env,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	Script bool     `json:"script,omitempty"`
	Signal int      `json:"signal,omitempty"`
}

// Events of a report.
const (
	evReady   = "ready"
	evFailed  = "failed"
	evStarted = "started"
	evExit    = "exit"
	evDone    = "done"
)

// report is a message from init.
type report struct {
	ID     int    `json:"id,omitempty"`
	Event  string `json:"event"`
	Reason string `json:"reason,omitempty"`
	Error  string `json:"error,omitempty"`
	Code   int    `json:"code,omitempty"`
	Signal int    `json:"signal,omitempty"`
	MaxRSS int64  `json:"max_rss,omitempty"`
}

// maxPacket bounds one message between supervisor and init.
const maxPacket = 208 << 10

func toBytes(in []string) [][]byte {
	out := make([][]byte, len(in))
	for i, s := range in {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(in [][]byte) []string {
	out := make([]string, len(in))
	for i, b := range in {
		out[i] = string(b)
	}
	return out
}
