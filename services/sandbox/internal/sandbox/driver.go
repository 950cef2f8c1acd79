package sandbox

import (
	"context"
	"time"
)

// Limits bound one sandbox. Every field has a positive value; [Limits.WithDefaults] fills in.
type Limits struct {
	MemoryBytes int64 `json:"memory_bytes"`
	// Processes bounds processes and threads.
	Processes int64 `json:"processes"`
	// CPUMilli is CPU time in thousandths of one core.
	CPUMilli int64 `json:"cpu_milli"`
	// DiskBytes and DiskEntries bound the workspace; TempBytes bounds each of /tmp, /dev/shm and the home directory.
	DiskBytes   int64 `json:"disk_bytes"`
	DiskEntries int64 `json:"disk_entries"`
	TempBytes   int64 `json:"temp_bytes"`
	// OpenFiles and FileBytes are per process.
	OpenFiles int64 `json:"open_files"`
	FileBytes int64 `json:"file_bytes"`
}

// DefaultLimits are those of a sandbox whose caller states none.
func DefaultLimits() Limits {
	return Limits{
		MemoryBytes: 1 << 30, Processes: 256, CPUMilli: 1000,
		DiskBytes: 512 << 20, DiskEntries: 100_000, TempBytes: 64 << 20,
		OpenFiles: 1024, FileBytes: 256 << 20,
	}
}

// WithDefaults returns the limits with every missing field set from d.
func (l Limits) WithDefaults(d Limits) Limits {
	for _, f := range []struct{ have, def *int64 }{
		{&l.MemoryBytes, &d.MemoryBytes}, {&l.Processes, &d.Processes}, {&l.CPUMilli, &d.CPUMilli},
		{&l.DiskBytes, &d.DiskBytes}, {&l.DiskEntries, &d.DiskEntries}, {&l.TempBytes, &d.TempBytes},
		{&l.OpenFiles, &d.OpenFiles}, {&l.FileBytes, &d.FileBytes},
	} {
		if *f.have <= 0 {
			*f.have = *f.def
		}
	}
	return l
}

// Spec is what a driver needs to make an instance. It is stored beside the instance.
type Spec struct {
	// ID names the instance: lower-case letters, digits and "-", at most 40 bytes, never reused.
	ID string `json:"id"`
	// Driver is the name of the driver.
	Driver string `json:"driver"`
	// Bucket is the key of the bucket that the instance belongs to. Drivers keep it and never read it.
	Bucket string `json:"bucket"`
	// Generation counts the instances of the bucket, from 1.
	Generation int64  `json:"generation"`
	Limits     Limits `json:"limits"`
	// HostDir is the directory that the process driver works in. Other drivers refuse it.
	HostDir string `json:"host_dir,omitempty"`
	// Records are finished effects that a restored snapshot carries: a repeat is answered from them.
	Records []Record  `json:"records,omitempty"`
	Created time.Time `json:"created"`
	// Restored is the snapshot that the instance starts from, and LostSince the time from which on changes are missing in it. Drivers keep them and never read them.
	Restored  string    `json:"restored,omitempty"`
	LostSince time.Time `json:"lost_since,omitzero"`
	// OrphanTimeout is how long the instance is kept when no service asks for it and nothing runs in it. 0: an hour.
	OrphanTimeout time.Duration `json:"orphan_timeout,omitempty"`
}

// Feature is one thing that a driver needs or offers on this machine.
type Feature struct {
	Name string
	// OK says whether it is there. Required says whether the driver refuses without it.
	OK, Required bool
	// Detail is what was found; Fix says how to get it, when it is missing.
	Detail, Fix string
}

// Capabilities say how drivers differ. The suite tests each in both directions.
type Capabilities struct {
	// Isolation: commands cannot see or change the host, other sandboxes or the network.
	Isolation bool
	// Limits: the instance enforces [Limits].
	Limits bool
	// Snapshots: the workspace can be frozen and archived.
	Snapshots bool
	// Projection: files can be placed in the workspace that commands cannot change.
	Projection bool
}

// Driver makes sandboxes on this machine. All methods are safe for concurrent use.
//
// A driver never weakens what it promises: where the machine lacks a required feature, Probe names it and Create refuses with
// DRIVER_UNAVAILABLE. Create builds or undoes: after an error no process, mount, control group or directory of the instance is left.
type Driver interface {
	// Name is the name by which configuration and requests select the driver.
	Name() string
	// Capabilities say what instances of this driver can do.
	Capabilities() Capabilities
	// Probe says what this machine offers, without changing it. It is cheap enough to call on every Create.
	Probe(ctx context.Context) []Feature
	// Create makes a new, empty, running instance. Two instances never share processes, files or records, whatever their buckets.
	Create(ctx context.Context, spec Spec) (Instance, error)
	// Adopt finds the instances that an earlier service process left. An instance whose supervisor is gone is cleaned up (processes,
	// mounts, control groups, directories) and returned in lost, with its running execs in state lost.
	Adopt(ctx context.Context) (live []Instance, lost []Lost, err error)
	// Close lets go of the driver. Instances go on running under their supervisors.
	Close() error
}

// Lost is an instance that did not survive.
type Lost struct {
	Spec Spec
	// Records are those of the lost supervisor: finished execs as they were, running ones in state lost.
	Records []Record
}

// Instance is one live sandbox. All methods are safe for concurrent use. After Destroy, or when the sandbox died, every method fails with
// SANDBOX_LOST (class unavailable).
type Instance interface {
	Spec() Spec
	// Exec starts a command. It records the exec before the fork; a command whose effect id is known is not started again: the returned
	// process is attached to the first one from the beginning of its output. The same effect id with another hash is EFFECT_MISMATCH.
	//
	// A foreground exec ends when its main process ends: whatever is left of its process tree is killed, whether it changed its session or
	// holds the output open. Output is always drained, so a slow caller never blocks a command.
	Exec(ctx context.Context, cmd Command) (Process, error)
	// Attach follows an exec from an offset of its output. Any number of callers may follow, also after it ended.
	Attach(ctx context.Context, execID string, offset int64) (Process, error)
	// Execs lists running execs and the most recent finished ones, oldest first.
	Execs(ctx context.Context) ([]Record, error)
	// Lookup finds an exec by its id or its effect id. EXEC_NOT_FOUND.
	Lookup(ctx context.Context, execOrEffect string) (Record, error)
	// Note keeps the record of an effect that is no command, replacing one with the same id. A record without an effect, or one in state lost, is
	// removed instead: the change did not happen.
	Note(ctx context.Context, r Record) error
	// Signal sends a signal to the process group of an exec; SIGKILL kills its whole tree. EXEC_ENDED when it has ended.
	Signal(ctx context.Context, execID string, signal int) error
	// Files opens the workspace with the rights of as. The caller closes it.
	Files(ctx context.Context, as Access) (Tree, error)
	// Freeze stops every process of the commands and returns when all have stopped. Thaw lets them go on. Both may be repeated.
	Freeze(ctx context.Context) error
	Thaw(ctx context.Context) error
	// SetUnsaved says whether the instance has changes that no snapshot has. One that has is not given up as soon when no service asks for it.
	SetUnsaved(unsaved bool) error
	// Alive checks that the sandbox lives, and counts the execs that run. It is cheap: every sandbox is asked every second.
	Alive(ctx context.Context) (running int, err error)
	// Destroy ends every process and removes every trace on this machine. Repeating it is no error.
	Destroy(ctx context.Context) error
}

// Access says with whose rights files are opened.
type Access int

const (
	// AsCommand may do what a command may do. It is the one for files that callers name.
	AsCommand Access = iota
	// AsOwner writes what commands can only read. It is the one for projection. Drivers without projection refuse it.
	AsOwner
	// AsReader reads everything, files that commands have made unreadable included. It is the one for snapshots.
	AsReader
)

// Process is one caller's view of an exec.
type Process interface {
	// ID is the id of the exec.
	ID() string
	// Repeated says that the exec was started by an earlier call with the same effect id.
	Repeated() bool
	// Recv returns the next event: an Output, or the Exit, which is the last one. After it, io.EOF.
	Recv() (Event, error)
	// WriteStdin passes bytes to the command. STDIN_CLOSED after CloseStdin or when the command has ended.
	WriteStdin(p []byte) error
	CloseStdin() error
	// Close stops following. The command goes on.
	Close() error
}

// Event is one thing that happened to an exec. Exactly one field is set.
type Event struct {
	Output *Output
	Exit   *Exit
}

// Streams of output.
const (
	Stdout = 1
	Stderr = 2
)

// Output is a piece of output. Bytes are as the command wrote them: a character may be split over pieces.
type Output struct {
	Stream int
	// Offset is the position of the piece in all output of the exec, both streams in the order in which they arrived.
	Offset int64
	// Skipped counts bytes before this piece that are no longer kept.
	Skipped int64
	Data    []byte
}
