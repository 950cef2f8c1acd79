package object

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
)

// probes is how often a pair of writers is let loose on one key.
const probes = 3

// probe proves that of several creations of one object one succeeds.
func (d *driver) probe(ctx context.Context) error {
	for range probes {
		key := "probe/" + rand.Text()
		won, err := d.probeOne(ctx, key)
		if cleared := d.remove(ctx, []string{key}); err == nil {
			err = cleared
		}
		if err != nil {
			return err
		}
		if won != 1 {
			return errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonStoreReadOnly, "the provider of the object store (%s) does not honour a create that is to fail "+
				"when the object exists (If-None-Match: *), so writers would overwrite each other: use Amazon S3, Google Cloud Storage, Azure Blob Storage or an S3 server with "+
				"conditional writes, or the backend postgres or redis", d.scheme).With("provider", d.scheme)
		}
	}
	return nil
}

// probeOne lets two writers create an object at once, then a third one, and says how many succeeded.
func (d *driver) probeOne(ctx context.Context, key string) (won int, err error) {
	errs := make([]error, 3)
	var wait sync.WaitGroup
	for i := range 2 {
		wait.Go(func() { errs[i] = d.create(ctx, key, []byte("probe")) })
	}
	wait.Wait()
	errs[2] = d.create(ctx, key, []byte("probe"))
	for _, e := range errs {
		switch {
		case e == nil:
			won++
		case !errors.Is(e, manifest.ErrTaken):
			err = e
		}
	}
	return won, err
}
