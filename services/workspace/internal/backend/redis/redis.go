package redis

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	// defaultTimeout bounds each call to the server.
	defaultTimeout = 10 * time.Second
	// pollEvery is how often a waiter looks in case that a message was lost.
	pollEvery = 2 * time.Second

	defaultPrefix = "gantry"
)

// Config says where the store is.
type Config struct {
	// URL of the server: redis://[user:password@]host:port[/database], rediss:// with TLS, unix://. Of a cluster with ?addr=host:port for each further node, and
	// behind sentinels with ?master_name=NAME, as the client parses them.
	URL string
	// Prefix of all keys. "": gantry.
	Prefix string
	// Timeout bounds each call to the server. 0: 10 seconds.
	Timeout time.Duration
	// History, CacheBytes and Log are as in package manifest.
	manifest.Config
}

// driver implements [manifest.Driver].
type driver struct {
	client  client.UniversalClient
	prefix  string
	timeout time.Duration
}

var _ manifest.Driver = (*driver)(nil)

// Open connects to the store. FAILED_PRECONDITION when the server is set up so that it would lose files. Close it.
func Open(ctx context.Context, cfg Config, now func() time.Time) (*manifest.Store, error) {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	d := &driver{prefix: cfg.Prefix, timeout: cfg.Timeout}
	if d.prefix == "" {
		d.prefix = defaultPrefix
	}
	if d.timeout <= 0 {
		d.timeout = defaultTimeout
	}
	var err error
	if d.client, err = connect(cfg.URL, d.timeout); err != nil {
		return nil, err
	}
	if err := d.inspect(ctx, cfg.Log); err != nil {
		_ = d.client.Close()
		return nil, err
	}
	return manifest.New(d, cfg.Config, now), nil
}

// connect makes a client of the kind that the URL asks for.
func connect(text string, timeout time.Duration) (client.UniversalClient, error) {
	// The error of the parser quotes the URL, and with it the password.
	wrong := errdefs.New(errdefs.ErrInvalidArgument, fsops.Domain, "", "the URL of the Redis store can't be parsed: write redis://[user:password@]host:port[/database]")
	u, err := url.Parse(text)
	if err != nil {
		return nil, wrong
	}
	query := u.Query()
	switch {
	case query.Has("master_name"):
		o, err := client.ParseFailoverURL(text)
		if err != nil {
			return nil, wrong
		}
		o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, o.DialTimeout = true, timeout, timeout, timeout
		return client.NewFailoverClient(o), nil
	case query.Has("addr"):
		o, err := client.ParseClusterURL(text)
		if err != nil {
			return nil, wrong
		}
		o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, o.DialTimeout = true, timeout, timeout, timeout
		return client.NewClusterClient(o), nil
	}
	o, err := client.ParseURL(text)
	if err != nil {
		return nil, wrong
	}
	o.ContextTimeoutEnabled, o.ReadTimeout, o.WriteTimeout, o.DialTimeout = true, timeout, timeout, timeout
	return client.NewClient(o), nil
}

// call runs one call to the server within its time.
func (d *driver) call(ctx context.Context, f func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, d.timeout)
	defer cancel()
	err := f(limited)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return mapError(err)
}

// Capabilities implements [manifest.Driver].
func (d *driver) Capabilities() files.Capabilities {
	return files.Capabilities{Name: "redis", GuardsAllWriters: true, ArbitraryNames: true, Shared: true}
}

// Trust implements [manifest.Driver]: the head of a log tells at once.
func (d *driver) Trust() time.Duration { return 0 }

// PollEvery implements [manifest.Driver].
func (d *driver) PollEvery() time.Duration { return pollEvery }

// Close implements [manifest.Driver].
func (d *driver) Close() error { return mapError(d.client.Close()) }

// Listen implements [manifest.Driver].
func (d *driver) Listen(ctx context.Context, changed func(files.Space)) {
	messages := d.client.Subscribe(ctx, d.channel())
	defer messages.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case m, ok := <-messages.Channel():
			if !ok {
				return
			}
			changed(files.Space(m.Payload))
		}
	}
}

func (d *driver) channel() string { return d.prefix + ":changes" }

// Spaces implements [manifest.Driver].
func (d *driver) Spaces(ctx context.Context, prefix, after files.Space, limit int) (out []files.Space, more bool, err error) {
	by := &client.ZRangeBy{Min: "[" + string(prefix), Max: "+", Count: int64(limit) + 1}
	if after >= prefix {
		by.Min = "(" + string(after)
	}
	if prefix == "" && after == "" {
		by.Min = "-"
	}
	var names []string
	err = d.call(ctx, func(ctx context.Context) (err error) {
		names, err = d.client.ZRangeByLex(ctx, d.spaces(), by).Result()
		return err
	})
	for _, name := range names {
		if !strings.HasPrefix(name, string(prefix)) {
			return out, false, err
		}
		if len(out) == limit {
			return out, true, err
		}
		out = append(out, files.Space(name))
	}
	return out, false, err
}
