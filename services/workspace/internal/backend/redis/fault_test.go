package redis_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	client "github.com/redis/go-redis/v9"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/redis"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const space = files.Space("default/user/coder/ana")

func view(s files.Store) *files.View {
	return files.NewView(s, space, nil, files.Limits{}, time.Now)
}

func write(ctx context.Context, s files.Store, path, content string) error {
	staged, err := s.Stage(ctx, strings.NewReader(content), 0)
	if err != nil {
		return err
	}
	_, err = view(s).Write(ctx, files.Call{Author: "ana"}, files.Write{Path: fsops.PathOf(path)}, staged)
	return err
}

func read(ctx context.Context, s files.Store, path string) (string, error) {
	_, data, err := view(s).ReadAll(ctx, fsops.PathOf(path), 64<<20)
	return string(data), err
}

// public fails when the message for callers holds text of the driver or of the system.
func public(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*errdefs.Error](err)
	if !ok {
		t.Fatalf("not typed: %v", err)
	}
	for _, text := range []string{"dial", "tcp", "127.0.0.1", "timeout", "i/o", "EOF", "redis:", "ERR", "OOM", "secret"} {
		if strings.Contains(e.Public(), text) {
			t.Errorf("the message %q says %q", e.Public(), text)
		}
	}
}

// A server that does not answer is UNAVAILABLE within the time of a call, and goes on where it was.
func TestFrozen(t *testing.T) {
	server := testkit.RedisServer(t)
	s := open(t, redis.Config{URL: server.URL, Timeout: time.Second})
	if err := write(t.Context(), s, "a", "1"); err != nil {
		t.Fatal(err)
	}
	thaw := server.Freeze(t)
	begun := time.Now()
	err := write(t.Context(), s, "a", "2")
	if !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("write: %v", err)
	}
	public(t, err)
	if _, err := read(t.Context(), s, "a"); !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("read: %v", err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("that took %s", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := read(ctx, s, "a"); !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("read with a deadline: %v", err)
	}
	thaw()
	testkit.Eventually(t, 10*time.Second, func() error { return write(t.Context(), s, "a", "3") })
	if got, err := read(t.Context(), s, "a"); err != nil || got != "3" {
		t.Errorf("read %q, %v", got, err)
	}
}

// A server that freezes in the middle of changes leaves each of them done or not done, whichever the caller was told.
func TestFrozenWhileWriting(t *testing.T) {
	server := testkit.RedisServer(t)
	s := open(t, redis.Config{URL: server.URL, Timeout: 500 * time.Millisecond})
	big := strings.Repeat("x", 400_000)
	var acknowledged sync.Map
	var n atomic.Int64
	stop := make(chan struct{})
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				i := n.Add(1)
				content := strings.Repeat(string(rune('a'+i%26)), len(big))
				if err := write(t.Context(), s, "big", content); err == nil {
					acknowledged.Store(content[:1], true)
				} else if !errors.Is(err, errdefs.ErrUnavailable) {
					t.Errorf("write: %v", err)
				}
			}
		})
	}
	for range 3 {
		before := n.Load()
		testkit.Eventually(t, 10*time.Second, func() error {
			if n.Load() < before+20 {
				return errors.New("waiting for writes")
			}
			return nil
		})
		thaw := server.Freeze(t)
		before = n.Load()
		testkit.Eventually(t, 10*time.Second, func() error {
			if n.Load() < before+4 {
				return errors.New("waiting for failures")
			}
			return nil
		})
		thaw()
	}
	close(stop)
	wait.Wait()
	fresh := open(t, redis.Config{URL: server.URL})
	for _, store := range []files.Store{s, fresh} {
		got, err := read(t.Context(), store, "big")
		if err != nil || len(got) != len(big) || strings.Trim(got, got[:1]) != "" {
			t.Errorf("the file has %d bytes, or is a mix: %v", len(got), err)
		}
	}
}

// A server that would throw files away is refused; one that has no memory left can be read.
func TestMemory(t *testing.T) {
	server := testkit.RedisServer(t, "--maxmemory-policy", "allkeys-lru")
	_, err := redis.Open(t.Context(), redis.Config{URL: server.URL}, time.Now)
	if !errors.Is(err, errdefs.ErrFailedPrecondition) || !strings.Contains(err.Error(), "maxmemory-policy to noeviction") {
		t.Errorf("a cache: %v", err)
	}
	server = testkit.RedisServer(t)
	s := open(t, redis.Config{URL: server.URL})
	if err := write(t.Context(), s, "a", "1"); err != nil {
		t.Fatal(err)
	}
	o, err := client.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	admin := client.NewClient(o)
	defer admin.Close()
	for name, settings := range map[string][2]string{"no memory": {"maxmemory", "1"}, "too few replicas": {"min-replicas-to-write", "1"}} {
		before := admin.ConfigGet(t.Context(), settings[0]).Val()[settings[0]]
		if err := admin.ConfigSet(t.Context(), settings[0], settings[1]).Err(); err != nil {
			t.Fatal(err)
		}
		err = write(t.Context(), s, "b", "2")
		if errdefs.ReasonOf(err) != fsops.ReasonStoreReadOnly {
			t.Errorf("%s: %v", name, err)
		}
		public(t, err)
		if got, err := read(t.Context(), s, "a"); err != nil || got != "1" {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
		if err := admin.ConfigSet(t.Context(), settings[0], before).Err(); err != nil {
			t.Fatal(err)
		}
		if err := write(t.Context(), s, "b", "2"); err != nil {
			t.Errorf("after %s: %v", name, err)
		}
	}
}

// What is wrong with a URL is said without the URL, which may hold a password.
func TestRefused(t *testing.T) {
	for _, url := range []string{"", "http://secret@host", "redis://u:secret@h:1/x", "redis://[", "redis://u:secret@h?addr=:::x&nonsense=1"} {
		_, err := redis.Open(t.Context(), redis.Config{URL: url}, time.Now)
		if !errors.Is(err, errdefs.ErrInvalidArgument) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	_, err := redis.Open(t.Context(), redis.Config{URL: "redis://127.0.0.1:1", Timeout: time.Second}, time.Now)
	if !errors.Is(err, errdefs.ErrUnavailable) {
		t.Errorf("nobody there: %v", err)
	}
	public(t, err)
	server := testkit.RedisServer(t)
	o, err := client.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	admin := client.NewClient(o)
	defer admin.Close()
	if err := admin.ConfigSet(t.Context(), "requirepass", "right").Err(); err != nil {
		t.Fatal(err)
	}
	_, err = redis.Open(t.Context(), redis.Config{URL: strings.Replace(server.URL, "redis://", "redis://:secret@", 1)}, time.Now)
	if !errors.Is(err, errdefs.ErrFailedPrecondition) {
		t.Errorf("a wrong password: %v", err)
	}
	public(t, err)
}

// A store whose server has lost what was written last goes on from what is there.
func TestLost(t *testing.T) {
	url := testkit.Redis(t)
	s := open(t, redis.Config{URL: url})
	o, err := client.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	admin := client.NewClient(o)
	defer admin.Close()
	for _, content := range []string{"1", "2", "3"} {
		if err := write(t.Context(), s, "a", content); err != nil {
			t.Fatal(err)
		}
	}
	// The third change is gone, as after a crash with appendfsync everysec.
	prefix := "gantry:{" + string(space) + "%}:"
	entries := admin.XRange(t.Context(), prefix+"log", "-", "+").Val()
	if len(entries) != 3 {
		t.Fatalf("%d entries", len(entries))
	}
	other := open(t, redis.Config{URL: url, Prefix: "other"})
	if got, err := read(t.Context(), other, "a"); errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
		t.Errorf("another prefix holds %q, %v", got, err)
	}
	dump := admin.Dump(t.Context(), prefix+"log").Val()
	head := admin.Get(t.Context(), prefix+"head").Val()
	if err := write(t.Context(), s, "a", "4"); err != nil {
		t.Fatal(err)
	}
	if err := admin.RestoreReplace(t.Context(), prefix+"log", 0, dump).Err(); err != nil {
		t.Fatal(err)
	}
	if err := admin.Set(t.Context(), prefix+"head", head, 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, store := range []files.Store{s, open(t, redis.Config{URL: url})} {
		if got, err := read(t.Context(), store, "a"); err != nil || got != "3" {
			t.Errorf("after the loss: %q, %v", got, err)
		}
	}
	if err := write(t.Context(), s, "b", "5"); err != nil {
		t.Errorf("write after the loss: %v", err)
	}
	if err := admin.FlushDB(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := read(t.Context(), s, "a"); errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
		t.Errorf("after the loss of all: %v", err)
	}
	if err := write(t.Context(), s, "a", "6"); err != nil {
		t.Errorf("write after the loss of all: %v", err)
	}
}
