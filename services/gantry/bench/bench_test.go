package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/figures"
)

func TestMedianIsOfTheCallsAfterTheWarmUp(t *testing.T) {
	calls := 0
	us, n, err := median(t.Context(), time.Millisecond, func(context.Context) error {
		calls++
		return nil
	})
	if err != nil || n < minCalls || calls != n+warmUp || us <= 0 {
		t.Errorf("%f us, %d calls measured of %d, %v", us, n, calls, err)
	}
	failure := errors.New("no")
	if _, _, err := median(t.Context(), time.Millisecond, func(context.Context) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("a failed call gives %v", err)
	}
}

func TestRound(t *testing.T) {
	for in, want := range map[float64]float64{0: 0, 1234.5: 1230, 20.249: 20.2, 0.012345: 0.0123, 9.999: 10} {
		if got := round(in); got != want {
			t.Errorf("round(%v) = %v, want %v", in, got, want)
		}
	}
}

// TestEchoesAreMeasuredWhateverIsAskedFor runs the cheapest part: the last line is the report.
func TestEchoesAreMeasuredWhateverIsAskedFor(t *testing.T) {
	var out bytes.Buffer
	if err := Run(t.Context(), Options{Time: time.Millisecond, Only: "nothing"}, &out); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var report figures.Report
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &report); err != nil {
		t.Fatalf("the last line is no report: %v\n%s", err, out.String())
	}
	if report.Command != "bench" || len(report.Figures) != 2 || report.Figures[0].Name != "echo_memory_us" || report.Figures[1].Name != "echo_tcp_us" {
		t.Errorf("figures %+v", report)
	}
}
