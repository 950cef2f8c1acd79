package files

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// ErrAcross is the cause of the error of an update that would write to more than one store: no transaction spans them. Nothing was written.
var ErrAcross = errors.New("files: an update across stores")

// AcrossError is ErrAcross for two prefixes that are routed to different stores; "" is what no route names.
func AcrossError(first, second string) error {
	message := fmt.Sprintf("%s and %s are kept in different stores, which no change can span all at once; change them one after another", routed(first), routed(second))
	return errdefs.Wrap(ErrAcross, errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonCapabilityMissing, message).
		With("capability", "atomic change across stores").With("first", first).With("second", second)
}

func routed(prefix string) string {
	if prefix == "" {
		return "what no route names"
	}
	text, _ := fsops.Text(prefix)
	return strconv.Quote(text)
}

// divided is a store that keeps the paths of a space in several stores, each with updates of its own. An update of it that would write to two is ErrAcross.
type divided interface {
	// Owner names the store that owns a path of a space.
	Owner(space Space, p fsops.Path) string
	// Owners names all stores.
	Owners() []string
}

// Template says whether a space is that of a stored template.
func (s Space) Template() bool {
	_, rest, _ := strings.Cut(string(s), "/")
	return strings.HasPrefix(rest, "template/")
}

// inSteps makes a change all at once or, where it concerns several stores, in steps. Each step is an update under an effect derived from that of the call, so a repeat under the
// same effect goes on where an earlier one ended: the first step records what is to be done, the last one the outcome. Without an effect id nothing is gone on with.
func inSteps[T any](ctx context.Context, v *View, call Call, atOnce, steps func() (T, error)) (T, error) {
	if _, ok := v.store.(divided); ok && call.Effect.ID != "" {
		begun, err := v.recorded(ctx, call.step("plan"))
		ended := false
		if begun {
			ended, err = v.recorded(ctx, call)
		}
		if err != nil {
			var none T
			return none, err
		}
		if begun && !ended {
			return steps()
		}
	}
	out, err := atOnce()
	if errors.Is(err, ErrAcross) {
		return steps()
	}
	return out, err
}

// errNotRecorded ends an update that was only to look for its effect.
var errNotRecorded = errors.New("files: the effect is not recorded")

// recorded says whether the effect of a call is recorded.
func (v *View) recorded(ctx context.Context, call Call) (bool, error) {
	_, err := v.store.Update(ctx, v.space, call.Effect, func(context.Context, Tx) ([]byte, error) { return nil, errNotRecorded })
	if errors.Is(err, errNotRecorded) {
		return false, nil
	}
	return err == nil, err
}

// step is the call of one step of a change.
func (c Call) step(names ...string) Call {
	for _, name := range names {
		c.Effect.ID = effect.Derive(c.Effect.ID, name)
	}
	return c
}

// doStep runs a step whose outcome is known, when it is recorded.
func doStep[T any](ctx context.Context, v *View, call Call, f func(context.Context, Tx) (T, error)) (T, error) {
	return update(ctx, v, call, func(*T, Cursor) {}, f)
}
