package testkit

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// RedisEnv names a Redis to use instead of one that the kit starts: its URL without a database. Its databases are emptied.
const RedisEnv = "GANTRY_TEST_REDIS"

// redisDatabases is how many databases the server of the kit has: one for each call.
const redisDatabases = 10_000

var (
	redisMu   sync.Mutex
	redisNext int
)

// Redis returns the URL of an empty database, which is emptied again with the test. The server is that of RedisEnv, else one that the kit starts from Debian's package,
// once for the test binary, with an append-only file.
func Redis(tb testing.TB) string {
	tb.Helper()
	base := os.Getenv(RedisEnv)
	if base == "" {
		s, err := redisServer()
		if err != nil {
			Skip(tb, "redis", "%v", err)
		}
		base = s
	}
	redisMu.Lock()
	number := redisNext % redisDatabases
	redisNext++
	redisMu.Unlock()
	address := strings.TrimPrefix(base, "redis://")
	flush := func() error { return redisSay(address, "SELECT "+strconv.Itoa(number), "FLUSHDB") }
	if err := flush(); err != nil {
		tb.Fatalf("empty a database: %v", err)
	}
	tb.Cleanup(func() {
		if err := flush(); err != nil {
			tb.Errorf("empty the database: %v", err)
		}
	})
	return base + "/" + strconv.Itoa(number)
}

// RedisServer starts a server of the test's own, with further settings ("--maxmemory", "1mb"). It ends with the test.
func RedisServer(tb testing.TB, settings ...string) Server {
	tb.Helper()
	s, err := startRedis(settings...)
	if err != nil {
		Skip(tb, "redis", "%v", err)
	}
	tb.Cleanup(s.watched.stop)
	return s
}

var redisServer = sync.OnceValues(func() (string, error) {
	s, err := startRedis()
	return s.URL, err
})

func startRedis(settings ...string) (Server, error) {
	bin, err := exec.LookPath("redis-server")
	if err != nil {
		return Server{}, fmt.Errorf("no Redis is installed (apt-get install redis-server) and %s is not set", RedisEnv)
	}
	dir, err := os.MkdirTemp("", "gantry-redis-")
	if err != nil {
		return Server{}, err
	}
	port, err := freePort()
	if err != nil {
		return Server{}, err
	}
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		return Server{}, err
	}
	argv := append([]string{bin, "--bind", "127.0.0.1", "--port", strconv.Itoa(port), "--dir", data, "--databases", strconv.Itoa(redisDatabases),
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--daemonize", "no"}, settings...)
	w, err := startWatched(dir, "TERM", 10, nil, nil, nil, argv...)
	if err != nil {
		return Server{}, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	deadline := time.Now().Add(30 * time.Second)
	for {
		if err = redisSay(address, "PING"); err == nil {
			return Server{URL: "redis://" + address, watched: w}, nil
		}
		if time.Now().After(deadline) {
			w.stop()
			return Server{}, fmt.Errorf("Redis does not answer: %w\n%s", err, w.tail())
		}
		waitForPort(port)
	}
}

// redisSay sends commands and wants no error.
func redisSay(address string, commands ...string) error {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	answers := bufio.NewReader(c)
	for _, command := range commands {
		if _, err := c.Write([]byte(command + "\r\n")); err != nil {
			return err
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			return err
		}
		if answer[0] == '-' {
			return fmt.Errorf("%s: %s", command, strings.TrimSpace(answer))
		}
	}
	return nil
}
