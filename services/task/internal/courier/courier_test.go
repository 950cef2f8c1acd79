package courier_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/task/internal/backend/sqlite"
	"github.com/gantry-agents/gantry/services/task/internal/courier"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

func TestMain(m *testing.M) { testkit.LeakMain(m) }

// poster answers posts with errors in order, and then takes them.
type poster struct {
	mu     sync.Mutex
	errs   []error
	times  []time.Time
	tokens []string
}

func (p *poster) Post(ctx context.Context, _ *threadv1.PostRequest, _ ...grpc.CallOption) (*threadv1.PostResponse, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.times, p.tokens = append(p.times, time.Now()), append(p.tokens, access.TokenFromContext(ctx))
	if len(p.times) <= len(p.errs) {
		return nil, p.errs[len(p.times)-1]
	}
	return &threadv1.PostResponse{}, nil
}

func (p *poster) calls() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.times)
}

func TestCourier(t *testing.T) {
	refusal := errdefs.New(errdefs.ErrUnavailable, "gantry.thread.v1", "", "not now")
	mismatch := errdefs.New(errdefs.ErrAborted, "gantry.thread.v1", "MESSAGE_MISMATCH", "another message")
	tests := map[string]struct {
		errs  []error
		posts int
	}{
		"taken at once":                                          {nil, 1},
		"refused, then taken":                                    {[]error{refusal, refusal, refusal}, 4},
		"refused for good is tried all the same":                 {[]error{errdefs.New(errdefs.ErrInvalidArgument, "", "", "no")}, 2},
		"a thread that holds another message is not asked again": {[]error{mismatch}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			store, err := sqlite.Open(t.Context(), sqlite.Config{Path: filepath.Join(t.TempDir(), "tasks.db")})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			engine := task.NewEngine(store, task.Limits{}, nil)
			if err := store.Update(t.Context(), func(tx task.Tx) error {
				return tx.PutMail(task.Mail{MessageID: "task/t_1", Tenant: "default", TaskID: "t_1", Thread: "default/thread/coder/ana/s1", Kind: "task_result", Payload: []byte("x"), NextTime: tx.Now()})
			}); err != nil {
				t.Fatal(err)
			}
			p := &poster{errs: tt.errs}
			c := courier.New(engine, p, courier.Options{
				FirstWait: 20 * time.Millisecond, MaxWait: 50 * time.Millisecond, Log: slog.New(slog.DiscardHandler),
				Token: func(_ context.Context, tenant string) (string, error) { return "token of " + tenant, nil },
			})
			defer store.Listen(c.Signal)()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); c.Run(ctx) }()
			testkit.Eventually(t, 10*time.Second, func() error {
				var left bool
				err := store.Update(t.Context(), func(tx task.Tx) (err error) { left, err = tx.HasMail("default", "t_1"); return err })
				if err == nil && left {
					err = errors.New("still in the outbox")
				}
				return err
			})
			cancel()
			<-ended
			if got := p.calls(); got != tt.posts {
				t.Errorf("%d posts, want %d", got, tt.posts)
			}
			if p.tokens[0] != "token of default" {
				t.Errorf("token %q", p.tokens[0])
			}
			for i, want := range []time.Duration{20 * time.Millisecond, 40 * time.Millisecond, 50 * time.Millisecond} {
				if i+1 < len(p.times) && p.times[i+1].Sub(p.times[i]) < want {
					t.Errorf("wait %d was %s, at least %s is due", i, p.times[i+1].Sub(p.times[i]), want)
				}
			}
		})
	}
}
