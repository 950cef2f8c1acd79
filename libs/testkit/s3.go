package testkit

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"
)

// S3Env names an S3 server to use instead of one that the kit starts: its URL, http://host:port. It must take requests without credentials and have, or make, the buckets.
const S3Env = "GANTRY_TEST_S3"

// S3 returns the URL of an empty bucket, as gocloud.dev/blob takes it. The server is that of S3Env, else one that the kit builds from deploy/tools/s3 and starts, once for
// the test binary. What is in the bucket goes with the server.
func S3(tb testing.TB) string {
	tb.Helper()
	base := os.Getenv(S3Env)
	if base == "" {
		s, err := s3Server()
		if err != nil {
			Skip(tb, "s3", "%v", err)
		}
		base = s.URL
	}
	return s3Bucket(base)
}

// S3Server starts a server of the test's own, with flags of deploy/tools/s3, and returns the URL of a bucket. It ends with the test.
func S3Server(tb testing.TB, flags ...string) Server {
	tb.Helper()
	s, err := startS3(flags...)
	if err != nil {
		Skip(tb, "s3", "%v", err)
	}
	tb.Cleanup(s.watched.stop)
	s.URL = s3Bucket(s.URL)
	return s
}

// s3Bucket makes a bucket. Servers that make buckets when they are used first do not all keep two first uses at the same time apart; one that makes none in this way has its own.
func s3Bucket(base string) string {
	name := "gantry-" + randomName()
	if r, err := http.NewRequest(http.MethodPut, base+"/"+name, http.NoBody); err == nil {
		// Nothing stays open behind a test that looks for leaks.
		once := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
		if answer, err := once.Do(r); err == nil {
			answer.Body.Close()
		}
	}
	return "s3://" + name + "?region=us-east-1&use_path_style=true&anonymous=true&endpoint=" + base
}

var s3Server = sync.OnceValues(func() (Server, error) { return startS3() })

// buildS3 builds the server into a directory; the build cache makes that quick.
func buildS3(dir string) (string, error) {
	if _, err := exec.LookPath("go"); err != nil {
		return "", errors.New("no go command is there to build the S3 server of deploy/tools/s3, and " + S3Env + " is not set")
	}
	bin := filepath.Join(dir, "s3")
	cmd := exec.Command("go", "build", "-trimpath", "-o", bin, ".")
	cmd.Dir, cmd.Env = filepath.Join(repository(), "deploy", "tools", "s3"), append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build deploy/tools/s3: %w: %s", err, out)
	}
	return bin, nil
}

func startS3(flags ...string) (Server, error) {
	port, err := freePort()
	if err != nil {
		return Server{}, err
	}
	dir, err := os.MkdirTemp("", "gantry-s3-")
	if err != nil {
		return Server{}, err
	}
	bin, err := buildS3(dir)
	if err != nil {
		return Server{}, errors.Join(err, os.RemoveAll(dir))
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	w, err := startWatched(dir, "KILL", 10, nil, nil, nil, append([]string{bin, "-address", address}, flags...)...)
	if err != nil {
		return Server{}, err
	}
	if err := awaitHTTP("http://"+address+"/", 30*time.Second); err != nil {
		w.stop()
		return Server{}, fmt.Errorf("the S3 server does not answer: %w\n%s", err, w.tail())
	}
	return Server{URL: "http://" + address, watched: w}, nil
}
