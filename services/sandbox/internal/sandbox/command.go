package sandbox

import (
	"path"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Bounds of a command. They keep one message to the init process of a sandbox small.
const (
	// MaxArgBytes bounds argv and env together.
	MaxArgBytes = 128 << 10
	// MaxScriptBytes bounds a script. Scripts travel in a memory file, not in an argument.
	MaxScriptBytes = 4 << 20
	// DefaultHardLimit ends a foreground command that states no limit.
	DefaultHardLimit = 120 * time.Second
	// MaxHardLimit is the longest limit that a caller may ask for.
	MaxHardLimit = 24 * time.Hour
	// DefaultLogBytes bounds the log of one exec. What is over it is dropped from the middle.
	DefaultLogBytes = 64 << 20
	// SoftGrace is how long a command that ran into its soft limit may take to end before the whole tree is killed.
	SoftGrace = 5 * time.Second
	// WorkspaceDir is where the workspace is inside a sandbox with a file system of its own.
	WorkspaceDir = "/workspace"
)

// Command is what a caller asks to run. It is stored and sent as JSON between the service and the supervisor.
type Command struct {
	// Argv is the program and its arguments. A name without "/" is looked up in PATH inside the sandbox. Exactly one of Argv and Script is set.
	Argv []string `json:"argv,omitempty"`
	// Script is the text of a script. It is given to the interpreter as an open file, so its size is not bounded by argument limits.
	Script []byte `json:"script,omitempty"`
	// Interpreter runs Script, with the path of the script as its last argument. Empty: bash, or sh where there is no bash.
	Interpreter []string `json:"interpreter,omitempty"`
	// Dir is the working directory: relative to the workspace, or absolute inside the sandbox. Empty: the workspace.
	Dir string `json:"dir,omitempty"`
	// Env holds NAME=VALUE. Nothing of the service's environment is ever passed on; HOME, PATH, LANG and TERM have defaults.
	Env []string `json:"env,omitempty"`
	// Stdin keeps standard input open for [Process.WriteStdin]. Otherwise the command reads end of file at once.
	Stdin bool `json:"stdin,omitempty"`
	// Soft is the time after which the command gets SIGTERM. 0: none.
	Soft time.Duration `json:"soft,omitempty"`
	// Hard is the time after which the whole tree is killed. 0: [DefaultHardLimit], or none for a background command.
	Hard time.Duration `json:"hard,omitempty"`
	// LogBytes bounds the kept output. 0: [DefaultLogBytes].
	LogBytes int64 `json:"log_bytes,omitempty"`
	// Background leaves processes of the command running when its main process has ended, and lets callers come and go.
	Background bool `json:"background,omitempty"`
	// Effect is the effect id. A second command with the same id is never started: the caller is attached to the first one.
	Effect string `json:"effect,omitempty"`
	// Hash identifies the request under its effect id. The same id with another hash is refused.
	Hash string `json:"hash,omitempty"`
}

// Validate checks the command and sets the defaults.
func (c *Command) Validate() error {
	if (len(c.Argv) == 0) == (len(c.Script) == 0) {
		return invalid("exactly one of argv and script must be set")
	}
	if len(c.Argv) > 0 && strings.TrimSpace(c.Argv[0]) == "" {
		return invalid("the program's name is blank")
	}
	if len(c.Script) > MaxScriptBytes {
		return invalid("the script has %d bytes, at most %d are allowed", len(c.Script), MaxScriptBytes)
	}
	size := 0
	for _, list := range [][]string{c.Argv, c.Interpreter, c.Env} {
		for _, s := range list {
			if strings.ContainsRune(s, 0) {
				return invalid("an argument or a variable holds NUL")
			}
			size += len(s) + 1
		}
	}
	if size > MaxArgBytes {
		return invalid("arguments and environment have %d bytes, at most %d are allowed: send a script or a file instead", size, MaxArgBytes)
	}
	for _, kv := range c.Env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return invalid("the variable %q is not NAME=VALUE", kv)
		}
	}
	if strings.ContainsRune(c.Dir, 0) || len(c.Dir) > 4096 {
		return invalid("the working directory is not a path")
	}
	if c.Soft < 0 || c.Hard < 0 || c.Hard > MaxHardLimit || c.Soft > MaxHardLimit {
		return invalid("a time limit must be between 0 and %s", MaxHardLimit)
	}
	if c.Hard == 0 && !c.Background {
		c.Hard = DefaultHardLimit
	}
	if c.LogBytes <= 0 {
		c.LogBytes = DefaultLogBytes
	}
	return nil
}

func invalid(format string, args ...any) error {
	return Errorf(errdefs.ErrInvalidArgument, ReasonCommandInvalid, format, args...)
}

// Environment returns the whole environment of the command: the four defaults, then what the command names.
func (c *Command) Environment(home string) []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "LANG=C.UTF-8", "TERM=dumb"}
	seen := make(map[string]int, len(env)+len(c.Env))
	for i, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		seen[name] = i
	}
	for _, kv := range c.Env {
		name, _, _ := strings.Cut(kv, "=")
		if i, ok := seen[name]; ok {
			env[i] = kv
			continue
		}
		seen[name] = len(env)
		env = append(env, kv)
	}
	return env
}

// WorkDir returns the working directory inside a sandbox whose workspace is at root.
func (c *Command) WorkDir(root string) string {
	if path.IsAbs(c.Dir) {
		return path.Clean(c.Dir)
	}
	return path.Join(root, c.Dir)
}

// State says how far an exec has come.
type State string

// The states of an exec. Running moves to one of the others and never back.
const (
	StateRunning State = "running"
	StateExited  State = "exited"
	// StateLost: the supervisor died with the command, or before it could record the end. The outcome is unknown.
	StateLost State = "lost"
)

// Exit says how an exec ended.
type Exit struct {
	State State `json:"state"`
	// Code is the exit code; 128 + Signal after a signal; 127 when the program could not be started.
	Code int `json:"code"`
	// Signal is the number of the signal that ended the main process. 0: none.
	Signal int `json:"signal,omitempty"`
	// TimedOut: a time limit ended the command.
	TimedOut bool `json:"timed_out,omitempty"`
	// OOM: the kernel killed a process of the command for memory.
	OOM bool `json:"oom,omitempty"`
	// LeftBehind: processes of a foreground command outlived its main process and were killed.
	LeftBehind bool `json:"left_behind,omitempty"`
	// StartError says why the program could not be started. StartReason is its machine-readable form.
	StartError  string `json:"start_error,omitempty"`
	StartReason string `json:"start_reason,omitempty"`
	// StdoutBytes and StderrBytes count all output, kept or not.
	StdoutBytes int64 `json:"stdout_bytes"`
	StderrBytes int64 `json:"stderr_bytes"`
	// Wall, CPU and MemoryPeak are what the command used. 0: not known.
	Wall       time.Duration `json:"wall"`
	CPU        time.Duration `json:"cpu"`
	MemoryPeak int64         `json:"memory_peak,omitempty"`
}

// Record is what the supervisor keeps of an exec: written before the fork and again at exit.
type Record struct {
	ID string `json:"id"`
	// Effect and Hash are those of the command. Empty: it was not an effect.
	Effect string `json:"effect,omitempty"`
	Hash   string `json:"hash,omitempty"`
	// Title is the command in one line of at most 200 bytes, for lists.
	Title      string    `json:"title"`
	Background bool      `json:"background,omitempty"`
	Start      time.Time `json:"start"`
	End        time.Time `json:"end,omitzero"`
	// Generation is that of the instance that ran the command.
	Generation int64 `json:"generation"`
	// Exit is zero but for its State while the command runs.
	Exit Exit `json:"exit"`
	// Kind is empty for an exec, and KindFile for a change of files from outside. Answer is what was answered to it.
	Kind   string `json:"kind,omitempty"`
	Answer []byte `json:"answer,omitempty"`
}

// KindFile marks the record of a change of files from outside.
const KindFile = "file"
