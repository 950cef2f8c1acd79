package testkit

import (
	"testing"

	"go.uber.org/goleak"
)

// LeakMain is the TestMain of packages with goroutines: it runs the tests and fails when one of them left a goroutine
// behind.
//
//	func TestMain(m *testing.M) { testkit.LeakMain(m) }
func LeakMain(m *testing.M, options ...goleak.Option) {
	goleak.VerifyTestMain(m, append([]goleak.Option{
		// Idle connections of the default client belong to the process and not to a test.
		goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
		goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"),
	}, options...)...)
}

// NoLeaks fails the test if goroutines that it started are still there at its end.
func NoLeaks(tb testing.TB, options ...goleak.Option) {
	tb.Helper()
	options = append(options, goleak.IgnoreCurrent())
	tb.Cleanup(func() { goleak.VerifyNone(tb, options...) })
}
