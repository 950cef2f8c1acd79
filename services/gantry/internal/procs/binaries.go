package procs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// The services, which are the names of their programs.
const (
	Workspace    = "workspace"
	Memory       = "memory"
	Sandbox      = "sandbox"
	Task         = "task"
	Orchestrator = "orchestrator"
	Gateway      = "gateway"
)

// Names are the services in the order in which they are started: whoever calls others comes after them. Connections are made at
// first need, so starting would work in any order; stopping in reverse lets each finish its last calls.
var Names = []string{Workspace, Memory, Sandbox, Task, Orchestrator, Gateway}

// BinEnv names the folder of the programs.
const BinEnv = "GANTRY_BIN"

// ErrNoBinaries says that the programs are not built.
var ErrNoBinaries = errors.New("procs: the services are not built: make build builds them into bin/, " + BinEnv + " names another folder")

// Bin finds the folder of the programs: BinEnv, else the folder of the running program, else bin/ of the source tree that
// this program was compiled from.
func Bin() (string, error) {
	if dir := os.Getenv(BinEnv); dir != "" {
		return dir, complete(dir)
	}
	var candidates []string
	if self, err := os.Executable(); err == nil {
		candidates = append(candidates, filepath.Dir(self))
	}
	if _, file, _, ok := runtime.Caller(0); ok && filepath.IsAbs(file) {
		candidates = append(candidates, filepath.Join(filepath.Dir(file), "..", "..", "..", "..", "bin"))
	}
	for _, dir := range candidates {
		if complete(dir) == nil {
			return dir, nil
		}
	}
	return "", ErrNoBinaries
}

// complete says whether all programs are in a folder.
func complete(dir string) error {
	for _, name := range Names {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%w (%s is missing in %s)", ErrNoBinaries, name, dir)
		}
	}
	return nil
}
