package pgnotify

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// firstPause and longestPause bound the wait before the listening connection is made again.
const firstPause, longestPause = 50 * time.Millisecond, 2 * time.Second

// listen keeps one connection on which the other processes tell of their changes.
func (c *Channel) listen(heard func([]string), missed func()) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.work.Go(func() {
		<-c.quit
		cancel()
	})
	wait := firstPause
	for {
		begun := time.Now()
		err := c.hear(ctx, heard, missed)
		if ctx.Err() != nil {
			return
		}
		c.log.Warn("the connection that hears of others' changes is lost and made again", "channel", c.name, "error", err)
		if wait = min(2*wait, longestPause); time.Since(begun) > longestPause {
			wait = firstPause // it was good for a while: a server that restarts is soon back
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// hear listens until the connection fails.
func (c *Channel) hear(ctx context.Context, heard func([]string), missed func()) error {
	conn, err := pgx.ConnectConfig(ctx, c.pool.Config().ConnConfig)
	if err != nil {
		return err
	}
	defer func() {
		end, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = conn.Close(end)
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgx.Identifier{c.name}.Sanitize()); err != nil {
		return err
	}
	missed()
	for {
		n, err := conn.WaitForNotification(ctx)
		if err != nil {
			return err
		}
		if words := c.read(n.Payload); len(words) > 0 {
			heard(words)
		}
	}
}
