package task

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"time"

	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// once runs fn unless a call was recorded under the effect id of c, whose outcome it returns then. The outcome is kept as JSON. Failures are not recorded: nothing happened.
func once[T any](w *work, bucket string, c Call, fn func() (T, error)) (T, error) {
	var out T
	if c.Effect == "" {
		return fn()
	}
	if err := checkEffect(c.Effect, w.now); err != nil {
		return out, err
	}
	record, err := w.Effect(bucket, c.Effect)
	switch {
	case err == nil && !bytes.Equal(record.Hash, c.Hash):
		return out, Errorf(errdefs.ErrAborted, ReasonEffectMismatch, "another request was recorded under this effect id").With("effect", c.Effect)
	case err == nil:
		return out, json.Unmarshal(record.Outcome, &out)
	case err != ErrNoRow:
		return out, err
	}
	if out, err = fn(); err != nil {
		return out, err
	}
	outcome, err := json.Marshal(out)
	if err != nil {
		return out, err
	}
	return out, w.PutEffect(Effect{Bucket: bucket, ID: c.Effect, Hash: c.Hash, Outcome: outcome, Time: w.now})
}

// checkEffect refuses ids that are none or too old.
func checkEffect(id string, now time.Time) error {
	err := effect.Check(id, now)
	if errdefs.ReasonOf(err) == effect.ReasonExpired {
		return Errorf(errdefs.ErrFailedPrecondition, ReasonEffectExpired, "the effect id is older than %s; whether the effect took place is unknown", effect.MaxAge).With("effect", id)
	}
	return err
}

var idText = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// newID returns an id with a prefix: derived from the parts, or random when there are none.
func newID(prefix string, parts ...string) string {
	h := sha256.New()
	if len(parts) == 0 {
		var random [16]byte
		rand.Read(random[:])
		h.Write(random[:])
	}
	var size [8]byte
	for _, part := range parts {
		// With the length before each part no two lists look alike.
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		h.Write(size[:])
		h.Write([]byte(part))
	}
	return prefix + idText.EncodeToString(h.Sum(nil))[:26]
}
