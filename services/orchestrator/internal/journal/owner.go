package journal

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"sync"
	"time"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// HeartbeatInterval is how often an owner says that it lives.
const HeartbeatInterval = 400 * time.Millisecond

// defaultLife is used until the store has stated one.
const defaultLife = 1500 * time.Millisecond

// ErrLost is the cause of the end of everything that an owner held when it could not prove that it lives.
var ErrLost = errors.New("the owner of the thread was lost: its heartbeats did not get through")

// ErrFenced is the cause of the end of a thread that another owner has taken.
var ErrFenced = errors.New("the thread has another owner")

// Config are the settings of an owner.
type Config struct {
	// Replica is the id of this replica, stable over restarts.
	Replica string
	// Address is where others reach it.
	Address string
	// Outgoing prepares the context of calls that no user's identity stands behind.
	Outgoing func(context.Context) context.Context
	Log      *slog.Logger
}

// Owner holds threads.
type Owner struct {
	client threadv1.ThreadServiceClient
	cfg    Config

	mu   sync.Mutex
	boot *boot
	quit context.CancelFunc
	done chan struct{}
}

// boot is one life of an owner.
type boot struct {
	id     string
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// NewOwner makes an owner; it holds nothing until it is started.
func NewOwner(client threadv1.ThreadServiceClient, cfg Config) *Owner {
	if cfg.Outgoing == nil {
		cfg.Outgoing = func(ctx context.Context) context.Context { return ctx }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Owner{client: client, cfg: cfg}
}

// Start begins with heartbeats. It does not wait for the store: what needs a thread waits for the first heartbeat by failing to acquire.
func (o *Owner) Start(context.Context) error {
	ctx, cancel := context.WithCancel(context.Background())
	o.mu.Lock()
	o.quit, o.done = cancel, make(chan struct{})
	o.boot = newBoot(ctx, o.cfg.Replica)
	o.mu.Unlock()
	go o.beat(ctx)
	return nil
}

// Stop gives everything up at once and ends the heartbeats.
func (o *Owner) Stop(ctx context.Context) error {
	o.mu.Lock()
	quit, done := o.quit, o.done
	o.mu.Unlock()
	if quit == nil {
		return nil
	}
	quit()
	<-done
	ctx, cancel := context.WithTimeout(o.cfg.Outgoing(ctx), HeartbeatInterval*2)
	defer cancel()
	_, err := o.client.Heartbeat(ctx, &threadv1.HeartbeatRequest{Owner: o.self(), Leaving: true})
	if errdefs.ReasonOf(err) == "OWNER_EXPIRED" {
		return nil
	}
	return err
}

// ID is the id of the current boot.
func (o *Owner) ID() string { return o.current().id }

func (o *Owner) current() *boot {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.boot
}

func (o *Owner) self() *threadv1.Owner {
	return &threadv1.Owner{Id: o.ID(), Address: o.cfg.Address}
}

func newBoot(ctx context.Context, replica string) *boot {
	var random [8]byte
	rand.Read(random[:])
	b := &boot{id: replica + "/" + hex.EncodeToString(random[:])}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	return b
}

// beat sends heartbeats until the owner stops.
func (o *Owner) beat(ctx context.Context) {
	defer close(o.done)
	life, proven := defaultLife, time.Now()
	tick := time.NewTicker(HeartbeatInterval)
	defer tick.Stop()
	for {
		sent := time.Now()
		granted, err := o.heartbeat(ctx, sent, proven.Add(life))
		switch {
		case err == nil:
			proven, life = sent, granted
		case ctx.Err() != nil:
		case errdefs.ReasonOf(err) == "OWNER_EXPIRED" || time.Since(proven) >= life:
			o.lose(ctx, err)
			proven = time.Now()
			continue
		default:
			o.cfg.Log.WarnContext(ctx, "a heartbeat did not get through", "owner", o.ID(), "error", err)
		}
		select {
		case <-ctx.Done():
			o.current().cancel(ErrLost)
			return
		case <-tick.C:
		}
	}
}

// heartbeat sends one, and gives it no longer than the owner has left to live.
func (o *Owner) heartbeat(ctx context.Context, sent, until time.Time) (time.Duration, error) {
	budget := max(until.Sub(sent), HeartbeatInterval)
	ctx, cancel := context.WithTimeout(o.cfg.Outgoing(ctx), budget)
	defer cancel()
	resp, err := o.client.Heartbeat(ctx, &threadv1.HeartbeatRequest{Owner: o.self()})
	if err != nil {
		return 0, err
	}
	if life := resp.GetLife().AsDuration(); life > 0 {
		return life, nil
	}
	return defaultLife, nil
}

// lose ends everything that the boot held and begins a new one.
func (o *Owner) lose(ctx context.Context, err error) {
	o.mu.Lock()
	old := o.boot
	o.boot = newBoot(ctx, o.cfg.Replica)
	o.mu.Unlock()
	old.cancel(ErrLost)
	o.cfg.Log.ErrorContext(ctx, "this replica could not prove that it lives and gave up its threads", "owner", old.id, "next", o.ID(), "error", err)
}
