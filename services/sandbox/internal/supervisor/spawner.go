package supervisor

import (
	"encoding/json"
	"os"
	"time"

	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Spawner makes processes in one sandbox. It is the part of a driver that runs inside the supervisor.
type Spawner interface {
	// Spawn starts a process. It takes none of the files over; the process has its own copies when Spawn returns.
	Spawn(req SpawnRequest) (Child, error)
	// Workspace opens the workspace and says how it is accessed.
	Workspace() (*os.File, FilesInfo, error)
	// WorkspaceDir is where commands find the workspace; Home is their home directory.
	WorkspaceDir() string
	Home() string
	// Freeze stops every process of every child; Thaw lets them go on.
	Freeze() error
	Thaw() error
	// Done is closed when the sandbox died by itself.
	Done() <-chan struct{}
	// Close kills everything and leaves no trace.
	Close() error
}

// SpawnRequest is a process to start.
type SpawnRequest struct {
	ID   string
	Argv []string
	Env  []string
	// Dir is absolute.
	Dir                   string
	Stdin, Stdout, Stderr *os.File
	// Script, when set, is passed as a further open file. Its path inside is appended to Argv.
	Script *os.File
}

// Child is a started process with all its descendants.
type Child interface {
	// Wait returns when the main process has ended.
	Wait() Status
	// Signal sends a signal to the process group of the main process.
	Signal(signal int) error
	// Kill kills the whole tree, descendants in other sessions included. It returns without waiting.
	Kill()
	// Finish kills what is left of the tree, frees what belongs to the child, and says what it used. It is called once, after Wait.
	Finish() Usage
}

// Status is how a main process ended.
type Status struct {
	Code, Signal int
	MaxRSS       int64
	// Lost: the sandbox died, so how the process ended is not known.
	Lost bool
}

// Usage is what a process tree used.
type Usage struct {
	CPU    time.Duration
	Memory int64
	OOM    bool
	// LeftBehind: there were processes left to kill.
	LeftBehind bool
}

// Factory makes the spawner of an instance, in the supervisor. config is what the driver passed to [Launch].
type Factory func(dir string, spec sandbox.Spec, config json.RawMessage) (Spawner, error)
