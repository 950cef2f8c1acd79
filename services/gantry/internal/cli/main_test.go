package cli

import (
	"context"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantry-agents/gantry/libs/testkit"
)

// asCLI makes this test binary the command line, for what must be another process.
const asCLI = "GANTRY_TEST_AS_CLI"

func TestMain(m *testing.M) {
	if os.Getenv(asCLI) != "" {
		os.Exit(Main(context.Background(), os.Args[1:], &Env{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Version: "test"}))
	}
	testkit.LeakMain(m, goleak.IgnoreTopFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}
