package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// Adopt finds the instances below parent that earlier service processes left. One whose supervisor answers is live, and keep is told about it. Any other is
// reaped: its processes, what reap knows of, and its directory go, and its records are returned as lost.
func Adopt[C any](ctx context.Context, parent string, reap func(dir string, spec sandbox.Spec) error, keep func(sandbox.Spec, C)) (live []sandbox.Instance, gone []sandbox.Lost, err error) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		dir := filepath.Join(parent, e.Name())
		in := stored{Spec: sandbox.Spec{ID: e.Name()}}
		// Without a readable spec the service died while it wrote it: nothing was started.
		if raw, err := os.ReadFile(filepath.Join(dir, specFile)); err == nil {
			_ = json.Unmarshal(raw, &in)
		}
		c := Open(dir, in.Spec, reap)
		if _, alive := c.Alive(ctx); alive == nil {
			var config C
			if err := json.Unmarshal(in.Config, &config); err != nil {
				return live, gone, fmt.Errorf("settings of sandbox %s: %w", in.Spec.ID, err)
			}
			keep(in.Spec, config)
			live = append(live, c)
			continue
		} else if ctx.Err() != nil {
			return live, gone, ctx.Err()
		} else if !errors.Is(alive, errdefs.ErrUnavailable) {
			return live, gone, alive
		}
		records, err := ReadRecords(dir)
		if err != nil {
			return live, gone, fmt.Errorf("records of sandbox %s: %w", in.Spec.ID, err)
		}
		if err := errors.Join(endSupervisor(dir, 0), reap(dir, in.Spec), os.RemoveAll(dir)); err != nil {
			return live, gone, fmt.Errorf("remains of sandbox %s: %w", in.Spec.ID, err)
		}
		gone = append(gone, sandbox.Lost{Spec: in.Spec, Records: records})
	}
	return live, gone, nil
}

// Config reads what the driver had passed to [Launch].
func Config[C any](dir string) (config C, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, specFile))
	if err != nil {
		return config, err
	}
	var in stored
	if err := json.Unmarshal(raw, &in); err != nil {
		return config, err
	}
	return config, json.Unmarshal(in.Config, &config)
}
