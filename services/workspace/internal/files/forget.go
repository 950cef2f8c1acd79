package files

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
	"strings"

	"github.com/gantry-agents/gantry/libs/effect"
)

// forgotten is what is to be forgotten under an effect: the life of the space, and what it held.
type forgotten struct {
	Generation string
	Files      int64
}

// effectSpace keeps the effects on a whole space, which it would lose with everything else. No bucket and no template has its name: "effects" is no scope.
func effectSpace(space Space) Space {
	tenant, rest, _ := strings.Cut(string(space), "/")
	return Space(tenant + "/effects/" + rest)
}

// Forget removes everything of the bucket and returns how many files that were. Under an effect it happens once: what is written after the first call stays. The effect is
// recorded before with the life of the space that it is about, since its record can't go with the space.
func (v *View) Forget(ctx context.Context, call Call) (int64, error) {
	if call.Effect.ID == "" {
		return v.store.Forget(ctx, v.space)
	}
	plan := call.Effect
	plan.ID = effect.Derive(plan.ID, "forget")
	planned, err := v.store.Update(ctx, effectSpace(v.space), plan, func(ctx context.Context, _ Tx) ([]byte, error) {
		head, err := v.store.Head(ctx, v.space)
		if err != nil {
			return nil, err
		}
		used, err := v.store.Usage(ctx, v.space)
		if err != nil {
			return nil, err
		}
		var out bytes.Buffer
		err = gob.NewEncoder(&out).Encode(forgotten{Generation: head.Generation, Files: used.Files})
		return out.Bytes(), err
	})
	if err != nil {
		return 0, err
	}
	var was forgotten
	if err := gob.NewDecoder(bytes.NewReader(planned.Outcome)).Decode(&was); err != nil {
		return 0, fmt.Errorf("read the recorded outcome: %w", err)
	}
	// A space that was forgotten has another generation, or none.
	head, err := v.store.Head(ctx, v.space)
	if err != nil || was.Generation == "" || head.Generation != was.Generation {
		return was.Files, err
	}
	if _, err := v.store.Forget(ctx, v.space); err != nil {
		return 0, err
	}
	return was.Files, nil
}
