package pgnotify

import (
	"context"
	"crypto/rand"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// noteBytes keeps a notification below the 8000 bytes that PostgreSQL takes.
	noteBytes = 7900
	// tellEvery bounds how often a process tells: what changes meanwhile is told together, once.
	tellEvery = 20 * time.Millisecond
	// retellEvery is how often it tries to tell what it could not.
	retellEvery = 200 * time.Millisecond
	// tellTime bounds the wait for the server. Nobody waits for it.
	tellTime = 2 * time.Second
	// maxWords bounds what waits to be told, for a server that does not answer. More is left to those who look.
	maxWords = 100_000
)

// Channel is the talk of the processes of one kind. Make it with [Open].
type Channel struct {
	pool *pgxpool.Pool
	name string
	log  *slog.Logger
	// own begins what this process tells, which it knows already.
	own  string
	quit chan struct{}
	work sync.WaitGroup

	mu    sync.Mutex
	words map[string]bool
	// signal has room for one: there is something to tell.
	signal chan struct{}
}

// Open joins the channel of that name. heard gets what the others tell; missed is called when something may have been told while nobody listened. Both must return soon. Close it
// before the pool.
func Open(pool *pgxpool.Pool, name string, heard func(words []string), missed func(), log *slog.Logger) *Channel {
	c := &Channel{
		pool: pool, name: name, log: log, own: rand.Text(), quit: make(chan struct{}), words: map[string]bool{}, signal: make(chan struct{}, 1),
	}
	c.work.Go(c.tell)
	c.work.Go(func() { c.listen(heard, missed) })
	return c
}

// Close leaves the channel.
func (c *Channel) Close() {
	close(c.quit)
	c.work.Wait()
}

// Tell tells the others of changes, after they are durable: within a transaction, NOTIFY has all commits of the database wait for one another. A word holds no white space and at most 7,000
// bytes. It does not wait, and goes on trying while the server is away.
func (c *Channel) Tell(words ...string) {
	if len(words) == 0 {
		return
	}
	c.mu.Lock()
	if len(c.words) < maxWords {
		for _, w := range words {
			c.words[w] = true
		}
	}
	c.mu.Unlock()
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

func (c *Channel) tell() {
	for {
		select {
		case <-c.quit:
			return
		case <-c.signal:
		}
		pause := tellEvery
		if words := c.take(); len(words) > 0 {
			if err := c.send(words); err != nil {
				c.log.Debug("other processes are not told of a change yet", "channel", c.name, "error", err)
				c.Tell(words...)
				pause = retellEvery
			}
		}
		select {
		case <-c.quit:
			return
		case <-time.After(pause):
		}
	}
}

func (c *Channel) take() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	words := slices.Collect(maps.Keys(c.words))
	clear(c.words)
	return words
}

func (c *Channel) send(words []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), tellTime)
	defer cancel()
	_, err := c.pool.Exec(ctx, `SELECT pg_notify($1, t) FROM unnest($2::TEXT[]) t`, c.name, c.texts(words))
	return err
}

// texts puts words into as few notifications as hold them.
func (c *Channel) texts(words []string) []string {
	var out []string
	text := c.own
	for _, w := range words {
		if len(text)+1+len(w) > noteBytes {
			out = append(out, text)
			text = c.own
		}
		text += " " + w
	}
	return append(out, text)
}

// read undoes texts; nothing when this process told it.
func (c *Channel) read(text string) []string {
	own, rest, _ := strings.Cut(text, " ")
	if own == c.own {
		return nil
	}
	return strings.Fields(rest)
}
