package journalsqlite_test

import (
	"context"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// bubble runs f with a store in a bubble of fake time: waits cost nothing and end at exactly their time.
func bubble(t *testing.T, f func(t *testing.T, s *journalsqlite.Store)) {
	synctest.Test(t, func(t *testing.T) {
		s, err := journalsqlite.Open(context.Background(), journalsqlite.Config{Path: filepath.Join(t.TempDir(), "journal.db")})
		if err != nil {
			t.Fatal(err)
		}
		f(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func named(session string) identity.Thread {
	return identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: session}
}

// poll claims with a wait, keeping the caller alive meanwhile.
func poll(t *testing.T, s *journalsqlite.Store, id string, most time.Duration) (claims []journal.Claim, took time.Duration) {
	t.Helper()
	owner := journal.Owner{ID: id}
	stop := make(chan struct{})
	done := make(chan struct{})
	beat := func() {
		if _, err := s.Heartbeat(context.Background(), owner, false); err != nil {
			t.Error(err)
		}
	}
	beat()
	go func() {
		defer close(done)
		tick := time.NewTicker(400 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				beat()
			case <-stop:
				return
			}
		}
	}()
	begin := time.Now()
	claims, err := s.ClaimExpired(context.Background(), journal.ClaimRequest{Owner: owner, Max: 8, MaxSchema: 1, MaxWait: most})
	took = time.Since(begin)
	close(stop)
	<-done
	if err != nil {
		t.Fatal(err)
	}
	return claims, took
}

func TestPollWakesAtTheExpiryOfAnOwner(t *testing.T) {
	bubble(t, func(t *testing.T, s *journalsqlite.Store) {
		w := newWriter(t, s, named("s"))
		b := w.batch("x")
		b.Run = journal.Run{ID: "run", State: journal.RunRunning}
		if _, err := s.Commit(context.Background(), named("s"), b); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		claims, took := poll(t, s, "r2/b", time.Minute)
		if want := journal.OwnerLife - 300*time.Millisecond; len(claims) != 1 || took != want {
			t.Errorf("%d claims after %v, want 1 after %v", len(claims), took, want)
		}
	})
}

func TestPollWakesWhenATimerIsDue(t *testing.T) {
	bubble(t, func(t *testing.T, s *journalsqlite.Store) {
		for session, after := range map[string]time.Duration{"soon": 7 * time.Second, "later": 20 * time.Second} {
			mail := journal.Mail{ID: "m", Kind: "wake_up", NotBefore: time.Now().Add(after), Wake: true}
			if _, _, err := s.Post(context.Background(), named(session), mail); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range []time.Duration{7 * time.Second, 13 * time.Second} {
			if claims, took := poll(t, s, "r/a", time.Minute); len(claims) != 1 || took != want {
				t.Errorf("%d claims after %v, want 1 after %v", len(claims), took, want)
			}
		}
		if claims, took := poll(t, s, "r/a", 30*time.Second); len(claims) != 0 || took != 30*time.Second {
			t.Errorf("%d claims after %v, want none after 30 s", len(claims), took)
		}
	})
}

// TestAnEarlierTimerMovesTheWait posts a timer that is due before the one that the poll sleeps for.
func TestAnEarlierTimerMovesTheWait(t *testing.T) {
	bubble(t, func(t *testing.T, s *journalsqlite.Store) {
		post := func(session string, after time.Duration) {
			if _, _, err := s.Post(context.Background(), named(session), journal.Mail{ID: "m", Kind: "k", NotBefore: time.Now().Add(after), Wake: true}); err != nil {
				t.Error(err)
			}
		}
		post("far", 30*time.Second)
		go func() {
			time.Sleep(5 * time.Second)
			post("near", time.Second)
		}()
		claims, took := poll(t, s, "r/a", time.Minute)
		if len(claims) != 1 || claims[0].Head.Thread.Session != "near" || took != 6*time.Second {
			t.Errorf("%d claims after %v, want near after 6 s", len(claims), took)
		}
	})
}

// TestOthersOnTheFile has two stores on one file, as two processes would: each sees the other's commits and posts within the re-check.
func TestOthersOnTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "journal.db")
		var stores [2]*journalsqlite.Store
		for i := range stores {
			s, err := journalsqlite.Open(context.Background(), journalsqlite.Config{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			stores[i] = s
		}
		w := newWriter(t, stores[0], named("s"))
		done := make(chan time.Duration, 1)
		go func() {
			begin := time.Now()
			if err := stores[1].Await(context.Background(), named("s"), 0); err != nil {
				t.Error(err)
			}
			done <- time.Since(begin)
		}()
		time.Sleep(3*time.Second + time.Millisecond)
		w.commit(t, "from the other")
		if took := <-done; took < 3*time.Second || took > 3*time.Second+time.Millisecond+journal.Recheck {
			t.Errorf("the commit was seen after %v", took)
		}
		go func() {
			time.Sleep(2*time.Second + time.Millisecond)
			if _, _, err := stores[0].Post(context.Background(), named("posted"), journal.Mail{ID: "m", Kind: "k", Wake: true}); err != nil {
				t.Error(err)
			}
		}()
		claims, took := poll(t, stores[1], "r/b", time.Minute)
		if len(claims) != 1 || took > 2*time.Second+time.Millisecond+journal.Recheck {
			t.Errorf("%d claims after %v", len(claims), took)
		}
		for _, s := range stores {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}
