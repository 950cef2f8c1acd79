package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"google.golang.org/protobuf/proto"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// once makes a mutating call at most once for its effect id, if it has one. empty receives a recorded answer. repeatable says that a second run of the same
// request leaves the same files.
func once[T proto.Message](ctx context.Context, f *Files, in *inside, req proto.Message, repeatable bool, empty T, change func() (T, error)) (T, error) {
	c, err := who(ctx, "")
	if err != nil {
		return empty, err
	}
	if c.effect == "" {
		return change()
	}
	if f.s.checkEffect(c.effect) != nil {
		return empty, fsops.ErrEffectExpired(c.effect)
	}
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		return empty, err
	}
	hash := sha256.New()
	hash.Write([]byte(req.ProtoReflect().Descriptor().FullName()))
	hash.Write(text)
	var fresh T
	made := false
	answer, err := f.s.m.Once(ctx, in.live, c.effect, hex.EncodeToString(hash.Sum(nil)), repeatable, func() ([]byte, error) {
		resp, err := change()
		if err != nil {
			return nil, err
		}
		fresh, made = resp, true
		return proto.Marshal(resp)
	})
	switch {
	case errdefs.ReasonOf(err) == sandbox.ReasonEffectMismatch:
		return empty, fsops.ErrEffectMismatch(c.effect)
	case err != nil:
		return empty, err
	case made:
		return fresh, nil
	}
	return empty, proto.Unmarshal(answer, empty)
}
