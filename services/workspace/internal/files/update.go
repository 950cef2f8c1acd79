package files

import (
	"bytes"
	"context"
	"encoding/gob"
	"fmt"
)

// update runs f in an update of the view's space, keeps its outcome under the effect and hands the cursor to the outcome.
func update[T any](ctx context.Context, v *View, call Call, setCursor func(*T, Cursor), f func(context.Context, Tx) (T, error)) (T, error) {
	var out T
	done, err := v.store.Update(ctx, v.space, call.Effect, func(ctx context.Context, tx Tx) ([]byte, error) {
		var err error
		if out, err = f(ctx, tx); err != nil {
			return nil, err
		}
		if call.Effect.ID == "" {
			return nil, nil
		}
		var record bytes.Buffer
		err = gob.NewEncoder(&record).Encode(out)
		return record.Bytes(), err
	})
	if err != nil {
		var none T
		return none, err
	}
	if done.Repeated {
		var recorded T
		if err := gob.NewDecoder(bytes.NewReader(done.Outcome)).Decode(&recorded); err != nil {
			return out, fmt.Errorf("read the recorded outcome: %w", err)
		}
		out = recorded
	}
	setCursor(&out, done.Cursor)
	return out, nil
}
