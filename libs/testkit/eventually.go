package testkit

import (
	"net"
	"testing"
	"time"
)

// Eventually waits until check returns nil, and fails the test with the last error when that takes longer than within. It
// asks often at first and every 50 ms later. It is for what other processes do; what happens in the test's own process is
// better waited for by a signal or in a testing/synctest bubble.
func Eventually(tb testing.TB, within time.Duration, check func() error) {
	tb.Helper()
	deadline := time.Now().Add(within)
	wait := time.Millisecond
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("not within %s: %v", within, err)
		}
		time.Sleep(wait)
		wait = min(2*wait, 50*time.Millisecond)
	}
}

// FreePort is a TCP port of the loopback that was free a moment ago. Listen on port 0 where that is possible; this is for
// servers that must be told a number.
func FreePort(tb testing.TB) int {
	tb.Helper()
	port, err := freePort()
	if err != nil {
		tb.Fatalf("no free port: %v", err)
	}
	return port
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}
