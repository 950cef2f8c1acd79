package object

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"syscall"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// call makes one request within its time. Its error is the provider's, or that of ctx.
func (d *driver) call(ctx context.Context, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	err := f(limited)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// read returns an object; nil when there is none.
func (d *driver) read(ctx context.Context, key string) (data []byte, err error) {
	err = d.call(ctx, func(ctx context.Context) (err error) {
		data, err = d.bucket.ReadAll(ctx, key)
		return err
	})
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, nil
	}
	if err == nil && data == nil {
		data = []byte{}
	}
	return data, mapError(err)
}

// write writes an object, with create only if there is none: the error's code is FailedPrecondition otherwise.
func (d *driver) write(ctx context.Context, key string, data []byte, create bool) error {
	return d.call(ctx, func(ctx context.Context) error {
		return d.bucket.WriteAll(ctx, key, data, &blob.WriterOptions{ContentType: "application/octet-stream", IfNotExist: create})
	})
}

// remove removes objects. What is gone already is no error.
func (d *driver) remove(ctx context.Context, keys []string) error {
	return d.each(ctx, len(keys), func(ctx context.Context, i int) error {
		err := d.call(ctx, func(ctx context.Context) error { return d.bucket.Delete(ctx, keys[i]) })
		if gcerrors.Code(err) == gcerrors.NotFound {
			return nil
		}
		return mapError(err)
	})
}

// list passes the objects whose keys begin with a prefix, and the rest of their keys, until f returns false.
func (d *driver) list(ctx context.Context, prefix string, f func(rest string, o *blob.ListObject) (bool, error)) error {
	token := blob.FirstPageToken
	for {
		var page []*blob.ListObject
		err := d.call(ctx, func(ctx context.Context) (err error) {
			page, token, err = d.bucket.ListPage(ctx, token, 1000, &blob.ListOptions{Prefix: prefix})
			return err
		})
		if err != nil && gcerrors.Code(err) != gcerrors.NotFound {
			return mapError(err)
		}
		for _, o := range page {
			if more, err := f(o.Key[len(prefix):], o); err != nil || !more {
				return err
			}
		}
		if len(token) == 0 {
			return nil
		}
	}
}

// each runs f for the numbers below n, some at once, and returns the first error. It stops early then.
func (d *driver) each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	if n == 1 {
		return f(ctx, 0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wait sync.WaitGroup
	workers := min(n, parallel)
	for w := range workers {
		wait.Go(func() {
			for i := w; i < n && ctx.Err() == nil; i += workers {
				if err := f(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wait.Wait()
	return context.Cause(ctx)
}

// mapError turns an error of the provider into one of a class. Errors that have one pass unchanged.
func mapError(err error) error {
	if _, typed := errors.AsType[*errdefs.Error](err); typed || err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	cause := ""
	switch code := gcerrors.Code(err); {
	case code == gcerrors.PermissionDenied, errors.Is(err, fs.ErrPermission):
		cause = "the credentials of this service may not do it"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		cause = "no space left"
	case errors.Is(err, syscall.EROFS):
		cause = "the disk is read-only"
	case errors.Is(err, syscall.ENAMETOOLONG):
		return errdefs.Wrap(err, errdefs.ErrInvalidArgument, fsops.Domain, fsops.ReasonNameUnsupported, "a name is too long for the store")
	default:
		return errdefs.Wrap(err, errdefs.ErrUnavailable, fsops.Domain, "", "the object store can't be reached now")
	}
	return errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonStoreReadOnly, "the store can't be written: "+cause+": %w", err).With("cause", cause)
}
