package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/cmd/replica"
)

const (
	// workersOfBucket change one bucket at a time, each below a directory of its own, and some files together.
	workersOfBucket = 2
	// maxTold bounds the findings that are printed in full.
	maxTold = 25
	// downTime is how long a killed replica stays away at most.
	downTime = 300 * time.Millisecond
	// historyCount is how many previous revisions the service keeps: few, so that pruning is always at work.
	historyCount = 5
)

// torturer is one run on one backend.
type torturer struct {
	opt      options
	backend  backend
	buckets  []*bucket
	replicas []*replica.Replica
	clients  []filesystemv1.FilesystemServiceClient
	workers  []*worker
	can      *filesystemv1.GetCapabilitiesResponse
	started  time.Time

	operations, uncertain, repeated atomic.Int64
	killAt                          chan struct{}

	mu    sync.Mutex
	tally tally
	told  int
	quiet bool // findings are counted only
}

// open starts the replicas.
func open(ctx context.Context, t testkit.T, opt options, b backend) (*torturer, error) {
	dir := t.TempDir()
	r := &torturer{opt: opt, backend: b, started: time.Now(), killAt: make(chan struct{}, 1)}
	var err error
	if r.buckets, err = newBuckets(r.started); err != nil {
		return nil, err
	}
	settings := b.settings(t, dir)
	for i := range b.replicas {
		home := filepath.Join(dir, fmt.Sprintf("replica%d", i))
		if err := os.MkdirAll(home, 0o755); err != nil {
			return nil, err
		}
		args := append([]string{
			"--auth-mode=jwt", "--auth-jwt-algorithm=HS256", "--workspace=" + filepath.Join(home, "workspace"), "--data=" + filepath.Join(home, "data"), "--log-level=error",
			fmt.Sprintf("--history-count=%d", historyCount),
		}, settings...)
		p, err := replica.New(replica.Config{Bin: opt.bin, Args: args, Env: []string{"GANTRY_AUTH_JWT_KEY=" + secret}, Log: filepath.Join(dir, fmt.Sprintf("replica%d.log", i))})
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.replicas = append(r.replicas, p)
		r.clients = append(r.clients, filesystemv1.NewFilesystemServiceClient(p.Conn()))
		if err := p.Start(ctx); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	if err := r.prepare(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// prepare asks what the service has and makes the workers.
func (r *torturer) prepare(ctx context.Context) (err error) {
	if r.can, err = r.clients[0].GetCapabilities(r.as(ctx, r.buckets[0], ""), &filesystemv1.GetCapabilitiesRequest{}); err != nil {
		return err
	}
	for i, b := range r.buckets {
		for j := range workersOfBucket {
			r.workers = append(r.workers, newWorker(r, b, i*workersOfBucket+j, fmt.Sprintf("w%d", j)))
		}
	}
	return nil
}

func (r *torturer) close() error {
	var errs []error
	for _, p := range r.replicas {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}

// as is a context with the identity and the credential of a bucket.
func (r *torturer) as(ctx context.Context, b *bucket, effect string) context.Context {
	id := b.id
	id.Effect = effect
	return access.NewTokenContext(identity.NewContext(ctx, id), b.token)
}

// fault counts and tells a finding.
func (r *torturer) fault(kind fault, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.faults[kind]++
	if r.told++; r.told <= maxTold && !r.quiet {
		fmt.Fprintf(os.Stderr, "torture: %s: %s: %s\n", r.backend.name, faultNames[kind], fmt.Sprintf(format, args...))
	}
}

// torture runs everything.
func (r *torturer) torture(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var background, work sync.WaitGroup
	watchers := make([]*watcher, len(r.buckets))
	watching, endWatch := context.WithCancel(ctx)
	defer endWatch()
	for i, b := range r.buckets {
		watchers[i] = newWatcher(r, b, i)
		background.Go(func() { watchers[i].watch(watching) })
	}
	errs := make(chan error, 1)
	killing, endKill := context.WithCancel(ctx)
	defer endKill()
	background.Go(func() {
		if err := r.kill(killing); err != nil && killing.Err() == nil {
			select {
			case errs <- err:
			default:
			}
			cancel()
		}
	})
	background.Go(func() { r.progress(killing) })
	each := (r.opt.n + len(r.workers) - 1) / len(r.workers)
	for _, w := range r.workers {
		work.Go(func() { w.work(ctx, each) })
	}
	work.Wait()
	endKill()
	endWatch()
	background.Wait()
	select {
	case err := <-errs:
		return err
	default:
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	r.verify(ctx)
	for _, w := range watchers {
		w.verify(ctx)
	}
	r.tally.operations, r.tally.uncertain, r.tally.repeated = int(r.operations.Load()), int(r.uncertain.Load()), int(r.repeated.Load())
	return nil
}

// done counts an operation and orders a kill when one is due.
func (r *torturer) done() {
	n := r.operations.Add(1)
	if r.opt.kills > 0 && n%int64(max(1, r.opt.n/(r.opt.kills+1))) == 0 {
		select {
		case r.killAt <- struct{}{}:
		default: // one is under way
		}
	}
}

// kill kills a replica whenever one is due, and starts it again.
func (r *torturer) kill(ctx context.Context) error {
	rng := rand.New(rand.NewPCG(r.opt.seed, 1))
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.killAt:
		}
		p := r.replicas[rng.IntN(len(r.replicas))]
		if err := p.Kill(); err != nil {
			return err
		}
		r.mu.Lock()
		r.tally.kills++
		r.mu.Unlock()
		pause(ctx, time.Duration(rng.Int64N(int64(downTime))))
		// Not with ctx: what is down at the end could not be looked at.
		if err := p.Start(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// progress prints a line now and then.
func (r *torturer) progress(ctx context.Context) {
	for last := int64(0); ; {
		pause(ctx, 5*time.Second)
		if ctx.Err() != nil || r.quiet {
			return
		}
		n := r.operations.Load()
		r.mu.Lock()
		now := r.tally
		r.mu.Unlock()
		now.operations, now.uncertain, now.repeated = int(n), int(r.uncertain.Load()), int(r.repeated.Load())
		fmt.Printf("torture: %s: %s, %d operations/s\n", r.backend.name, now, (n-last)/5)
		last = n
	}
}

// pause waits, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
