package object

import (
	"context"
	"net/url"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/fileblob"  // file://
	_ "gocloud.dev/blob/gcsblob"   // gs://
	_ "gocloud.dev/blob/memblob"   // mem://
	_ "gocloud.dev/blob/s3blob"    // s3://

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// defaultTimeout bounds each request.
	defaultTimeout = 30 * time.Second
	// trust is for how long the absence of the next entry proves that a position is the newest: entries stay an hour after a checkpoint has covered them.
	trust = 10 * time.Minute
	// pollEvery is how often a waiter looks.
	pollEvery = time.Second
	// parallel is how many requests one call makes at once.
	parallel = 16
	// stagedLife is when staged chunks are removed.
	stagedLife = 24 * time.Hour
)

// Config says where the store is.
type Config struct {
	// URL of the bucket: s3://NAME?region=…, gs://NAME, azblob://CONTAINER, file:///DIRECTORY, mem://, with the parameters that gocloud.dev/blob knows, and prefix=…/ for a
	// part of a bucket. Credentials come from the environment, as the provider's own tools take them.
	URL string
	// Timeout bounds each request. 0: 30 seconds.
	Timeout time.Duration
	// History, CacheBytes and Log are as in package manifest.
	manifest.Config
}

// driver implements [manifest.Driver].
type driver struct {
	bucket  *blob.Bucket
	scheme  string
	timeout time.Duration
	guard   func() (release func(), err error) // around creation, where the provider does not guard it itself
}

var _ manifest.Driver = (*driver)(nil)

// Open opens the store. FAILED_PRECONDITION when the provider does not take conditional creates. Close it.
func Open(ctx context.Context, cfg Config, now func() time.Time) (*manifest.Store, error) {
	u, err := url.Parse(cfg.URL)
	if err != nil || u.Scheme == "" {
		return nil, errdefs.New(errdefs.ErrInvalidArgument, fsops.Domain, "", "the URL of the object store can't be parsed: write s3://NAME?region=REGION, gs://NAME or azblob://CONTAINER")
	}
	guard := unguarded
	if u.Scheme == "file" {
		query := u.Query()
		for name, value := range map[string]string{"create_dir": "true", "no_tmp_dir": "true", "metadata": "skip"} {
			query.Set(name, value)
		}
		u.RawQuery = query.Encode()
		guard = lockFile(u.Path)
	}
	bucket, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, errdefs.Wrap(err, errdefs.ErrInvalidArgument, fsops.Domain, "", "the object store can't be opened: its URL or the credentials in the environment are wrong")
	}
	return open(ctx, bucket, u.Scheme, guard, cfg, now)
}

func unguarded() (func(), error) { return func() {}, nil }

// open makes the store of an open bucket, which it closes.
func open(ctx context.Context, bucket *blob.Bucket, scheme string, guard func() (func(), error), cfg Config, now func() time.Time) (*manifest.Store, error) {
	d := &driver{bucket: bucket, scheme: scheme, timeout: cfg.Timeout, guard: guard}
	if d.timeout <= 0 {
		d.timeout = defaultTimeout
	}
	if err := d.probe(ctx); err != nil {
		_ = bucket.Close()
		return nil, err
	}
	return manifest.New(d, cfg.Config, now), nil
}

// Capabilities implements [manifest.Driver].
func (d *driver) Capabilities() files.Capabilities {
	return files.Capabilities{Name: "object", GuardsAllWriters: true, ArbitraryNames: true, Shared: true}
}

// Trust implements [manifest.Driver].
func (d *driver) Trust() time.Duration { return trust }

// PollEvery implements [manifest.Driver].
func (d *driver) PollEvery() time.Duration { return pollEvery }

// Listen implements [manifest.Driver]: nobody tells.
func (d *driver) Listen(context.Context, func(files.Space)) {}

// Close implements [manifest.Driver].
func (d *driver) Close() error { return mapError(d.bucket.Close()) }
