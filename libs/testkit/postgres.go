package testkit

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// PostgresEnv names a PostgreSQL to use instead of one that the kit starts: the URL of a database whose user may create
// databases.
const PostgresEnv = "GANTRY_TEST_POSTGRES"

// Postgres returns the URL of a fresh, empty database (UTF8, collation C), which is dropped with the test. The server is
// that of PostgresEnv, else one that the kit starts from Debian's package, once for the test binary.
func Postgres(tb testing.TB) string {
	tb.Helper()
	admin := os.Getenv(PostgresEnv)
	if admin == "" {
		s, err := postgresServer()
		if err != nil {
			Skip(tb, "postgres", "%v", err)
		}
		admin = s
	}
	name := "gantry_" + randomName()
	if err := psql(admin, "CREATE DATABASE "+name+" TEMPLATE template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"); err != nil {
		tb.Fatalf("create a database: %v", err)
	}
	tb.Cleanup(func() {
		if err := psql(admin, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Errorf("drop the database: %v", err)
		}
	})
	u, err := url.Parse(admin)
	if err != nil {
		tb.Fatalf("%s: %v", PostgresEnv, err)
	}
	u.Path = "/" + name
	return u.String()
}

// DurablePostgres returns the URL of a database on a server of the test's own that waits for the disk at each commit, as those of production do. It ends with the test.
func DurablePostgres(tb testing.TB) string {
	tb.Helper()
	url, w, err := newPostgres("-c", "fsync=on", "-c", "full_page_writes=on", "-c", "synchronous_commit=on", "-c", "shared_buffers=256MB", "-c", "max_wal_size=2GB")
	if err != nil {
		Skip(tb, "postgres", "%v", err)
	}
	tb.Cleanup(w.stop)
	return url
}

// postgresServer starts the server of this test binary, once.
var postgresServer = sync.OnceValues(func() (string, error) {
	url, _, err := newPostgres()
	return url, err
})

// newPostgres makes a cluster and starts a server on it.
func newPostgres(settings ...string) (string, *watched, error) {
	bin, err := postgresBinaries()
	if err != nil {
		return "", nil, err
	}
	// initdb refuses to work as root, so root becomes the user of the package.
	attr := func() *syscall.SysProcAttr { return nil }
	dir, err := os.MkdirTemp("", "gantry-postgres-")
	if err != nil {
		return "", nil, err
	}
	if os.Geteuid() == 0 {
		uid, gid, err := userIDs("postgres")
		if err != nil {
			return "", nil, err
		}
		if err := os.Chown(dir, int(uid), int(gid)); err != nil {
			return "", nil, err
		}
		attr = func() *syscall.SysProcAttr {
			return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: gid}}
		}
	}
	data := filepath.Join(dir, "data")
	initdb := exec.Command(filepath.Join(bin, "initdb"), "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions")
	initdb.SysProcAttr, initdb.Dir = attr(), "/"
	if out, err := initdb.CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return startPostgres(bin, dir, data, attr(), settings)
}

func startPostgres(bin, dir, data string, attr *syscall.SysProcAttr, settings []string) (string, *watched, error) {
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	w, err := startWatched(dir, "INT", 10, attr, nil, nil, append([]string{
		filepath.Join(bin, "postgres"), "-D", data,
		"-c", "listen_addresses=127.0.0.1", "-c", fmt.Sprintf("port=%d", port), "-c", "unix_socket_directories=" + dir,
		// Tests want the semantics of the server and not its durability.
		"-c", "fsync=off", "-c", "full_page_writes=off", "-c", "synchronous_commit=off",
		"-c", "max_connections=200", "-c", "shared_buffers=32MB",
	}, settings...)...)
	if err != nil {
		return "", nil, err
	}
	admin := fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)
	deadline := time.Now().Add(30 * time.Second)
	for {
		if err = psql(admin, "SELECT 1"); err == nil {
			return admin, w, nil
		}
		if time.Now().After(deadline) {
			w.stop()
			return "", nil, fmt.Errorf("PostgreSQL does not answer: %w\n%s", err, w.tail())
		}
		waitForPort(port)
	}
}

// waitForPort waits a little, at most until something listens.
func waitForPort(port int) {
	for range 20 {
		c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), 50*time.Millisecond)
		if err == nil {
			c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func psql(admin, statement string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	program := "psql"
	if bin, err := postgresBinaries(); err == nil {
		program = filepath.Join(bin, program)
	}
	cmd := exec.CommandContext(ctx, program, "-X", "-q", "-v", "ON_ERROR_STOP=1", "-c", statement, admin)
	cmd.Dir = "/"
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("psql: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// postgresBinaries finds the directory of the server's programs: Debian keeps them outside of PATH, the newest is taken.
func postgresBinaries() (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		return "", err
	}
	sort.Slice(found, func(i, j int) bool { return version(found[i]) < version(found[j]) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := exec.LookPath("initdb")
	if err != nil {
		return "", fmt.Errorf("no PostgreSQL is installed (apt-get install postgresql) and %s is not set", PostgresEnv)
	}
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	return filepath.Dir(path), nil
}

func version(path string) int {
	n, err := strconv.Atoi(strings.Split(path, "/")[4])
	if err != nil {
		return 0
	}
	return n
}

func userIDs(name string) (uint32, uint32, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return 0, 0, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return 0, 0, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return uint32(uid), uint32(gid), err
}

func randomName() string {
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		panic(err) // crypto/rand does not fail on the systems that tests run on
	}
	return hex.EncodeToString(b[:])
}
