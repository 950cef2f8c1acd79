package memory

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/services/memory/internal/index"
	"github.com/gantry-agents/gantry/services/memory/internal/index/pool"
)

// Options are the settings and parts of a Service. All are required but Threads and Model.
type Options struct {
	Files   Files
	Threads Threads // nil: threads can be neither searched nor flushed
	Pool    *pool.Pool
	// Model does the thinking of flush and consolidation; nil: rules do.
	Model     model.Provider
	ModelName string
	// ModelTimeout bounds one request to the model.
	ModelTimeout time.Duration
	// Zone is the one whose calendar day picks a ledger where the caller names none.
	Zone *time.Location
	// BudgetTokens bounds MEMORY.md.
	BudgetTokens int
	// Versions is how many earlier versions of MEMORY.md are kept.
	Versions int
	// SyncTime bounds what a search spends on bringing the index up to date.
	SyncTime time.Duration
	Now      func() time.Time
	Log      *slog.Logger
}

// Service remembers.
type Service struct {
	files   Files
	threads Threads
	pool    *pool.Pool
	opts    Options
	zone    *time.Location
	now     func() time.Time
	log     *slog.Logger

	saving        keyedLocks
	consolidating keyedLocks
	status        statusBoard
}

// New makes a service.
func New(o Options) *Service {
	return &Service{files: o.Files, threads: o.Threads, pool: o.Pool, opts: o, zone: o.Zone, now: o.Now, log: o.Log}
}

// call is the identity of a call and the bucket that it selects.
type call struct {
	id     identity.Identity
	bucket identity.Bucket
}

func callOf(ctx context.Context) (call, error) {
	bucket, err := identity.BucketFromContext(ctx)
	if err != nil {
		return call{}, err
	}
	id, ok := identity.FromContext(ctx)
	if !ok {
		return call{}, errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, identity.ReasonRequired, "the call has no identity")
	}
	return call{id, bucket}, nil
}

// memoryIndex is the key of the bucket's index.
func (c call) memoryIndex() string { return "memory/" + c.bucket.Key() }

// threadIndex is the key of the index of the caller's threads. Anonymous callers have nothing in common: each session has an index of its own.
func (c call) threadIndex() (string, error) {
	of := c.id
	of.Scope = identity.ScopeUser
	bucket, err := of.Bucket()
	if err != nil {
		return "", err
	}
	return "threads/" + bucket.Key(), nil
}

// zoneOf finds the zone that a caller names.
func (s *Service) zoneOf(name string) (*time.Location, error) {
	if name == "" {
		return s.zone, nil
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, invalid(ReasonTimeZoneUnknown, "there is no time zone %q; use an IANA name such as Europe/Berlin", name).With("time_zone", name)
	}
	return zone, nil
}

// public turns errors of the index into ones that callers understand.
func public(err error, key string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, index.ErrLocked):
		return errdefs.New(errdefs.ErrFailedPrecondition, Domain, ReasonIndexLocked,
			"the index is held by another process: %w", err).With("index", key)
	case errors.Is(err, index.ErrDamaged):
		return errdefs.New(errdefs.ErrDataLoss, Domain, ReasonIndexDamaged,
			"the index was damaged and could not be built again: %w", err).With("index", key)
	case errors.Is(err, pool.ErrBusy):
		return errdefs.New(errdefs.ErrResourceExhausted, Domain, ReasonIndexesBusy, "too many indexes are in use: %w", err).With("index", key).RetryIn(time.Second)
	case errors.Is(err, pool.ErrClosed):
		return errdefs.New(errdefs.ErrUnavailable, Domain, "", "the service is stopping: %w", err)
	}
	return err
}

// canceled says whether an error is the context's and not the work's.
func canceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (s *Service) requireThreads() error {
	if s.threads == nil {
		return errdefs.New(errdefs.ErrFailedPrecondition, Domain, ReasonThreadsMissing, "no thread service is configured").With("setting", "threads")
	}
	return nil
}

// method chooses who works.
func (s *Service) method(asked Method) (Method, error) {
	switch {
	case asked == MethodRules || asked != MethodModel && s.opts.Model == nil:
		return MethodRules, nil
	case s.opts.Model == nil:
		return 0, errdefs.New(errdefs.ErrFailedPrecondition, Domain, ReasonModelMissing, "no model is configured for the memory service; ask for rules").
			With("setting", "model")
	}
	return MethodModel, nil
}

// modelFailed is the error of a model that gave nothing usable.
func (s *Service) modelFailed(format string, args ...any) error {
	cause := fmt.Errorf(format, args...)
	return errdefs.New(errdefs.ErrUnavailable, Domain, ReasonModelFailed, "the model gave no usable answer; nothing was written: %w", cause).
		With("model", s.opts.ModelName).RetryIn(30 * time.Second)
}

// withEffect gives the context of a call that is made under another effect id.
func withEffect(ctx context.Context, c call, id string) context.Context {
	c.id.Effect = id
	return identity.NewContext(ctx, c.id)
}
