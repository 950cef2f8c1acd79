package redis

import (
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// inspect checks that the server answers and is set up to keep files, as far as it lets itself be asked.
func (d *driver) inspect(ctx context.Context, log *slog.Logger) error {
	if err := d.call(ctx, func(ctx context.Context) error { return d.client.Ping(ctx).Err() }); err != nil {
		return err
	}
	settings := map[string]string{}
	for _, name := range []string{"maxmemory-policy", "appendonly", "appendfsync"} {
		var got map[string]string
		err := d.call(ctx, func(ctx context.Context) (err error) {
			got, err = d.client.ConfigGet(ctx, name).Result()
			return err
		})
		if err != nil {
			log.WarnContext(ctx, "the settings of the Redis store can't be read: see that it has an append-only file and that maxmemory-policy is noeviction", "setting", name)
			return nil
		}
		settings[name] = got[name]
	}
	if policy := settings["maxmemory-policy"]; strings.HasPrefix(policy, "allkeys-") {
		return errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonStoreReadOnly,
			"the Redis store would throw files away when its memory is full (maxmemory-policy %s): set maxmemory-policy to noeviction, or use a server that is no cache", policy)
	}
	switch {
	case settings["appendonly"] != "yes":
		log.WarnContext(ctx, "the Redis store has no append-only file: what was written since its last snapshot is lost when it crashes; set appendonly to yes")
	case settings["appendfsync"] != "always":
		log.InfoContext(ctx, "the Redis store may lose the last second when it crashes; set appendfsync to always to rule that out")
	}
	return nil
}

// mapError turns an error of the driver into one of a class. Errors that have one pass unchanged.
func mapError(err error) error {
	if _, typed := errors.AsType[*errdefs.Error](err); typed || err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	reply, ok := errors.AsType[client.Error](err)
	if !ok {
		return errdefs.Wrap(err, errdefs.ErrUnavailable, fsops.Domain, "", "the Redis store can't be reached now")
	}
	code, _, _ := strings.Cut(reply.Error(), " ")
	if cause, ok := unwritable[code]; ok {
		return errdefs.New(errdefs.ErrFailedPrecondition, fsops.Domain, fsops.ReasonStoreReadOnly, "the store can't be written: "+cause+": %w", err).With("cause", cause)
	}
	switch code {
	case "NOAUTH", "WRONGPASS", "NOPERM":
		return errdefs.Wrap(err, errdefs.ErrFailedPrecondition, fsops.Domain, "", "the Redis store refuses the credentials of this service, or lets it do too little")
	}
	return errdefs.Wrap(err, errdefs.ErrUnavailable, fsops.Domain, "", "the Redis store can't serve now")
}

// unwritable are the replies of a server that does not take a change now.
var unwritable = map[string]string{
	"OOM":        "no memory left",
	"READONLY":   "the server is a read-only replica",
	"MISCONF":    "the server can't write to its disk",
	"NOREPLICAS": "the server has too few replicas",
}

// earlier says whether a score, in seconds, is before a time.
func earlier(score string, before time.Time) bool {
	at, err := strconv.ParseFloat(score, 64)
	return err == nil && int64(at) < before.Unix()
}
