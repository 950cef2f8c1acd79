package testkit

import (
	"os"
	"strings"
	"testing"
)

// RequireEnv names what a skip is not allowed for.
const RequireEnv = "GANTRY_TEST_REQUIRE"

// Required says whether need must be there.
func Required(need string) bool {
	for _, r := range strings.Split(os.Getenv(RequireEnv), ",") {
		if r = strings.TrimSpace(r); r == need || r == "all" {
			return true
		}
	}
	return false
}

// Skip skips the test because need is missing, or fails it where need is required. The text says what is missing and how
// to get it.
func Skip(tb testing.TB, need, format string, args ...any) {
	tb.Helper()
	if Required(need) {
		tb.Fatalf("%s is required by "+RequireEnv+": "+format, append([]any{need}, args...)...)
	}
	tb.Skipf(need+": "+format, args...)
}
