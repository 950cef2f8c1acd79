package bench

import (
	"context"
	"slices"
	"strconv"
	"time"
)

const (
	// warmUp calls open connections, fill caches and let the run-time settle.
	warmUp = 30
	// minCalls are made even if they take longer than the time that is given.
	minCalls = 20
)

// median makes calls one after another for some time and returns the median latency in microseconds, with the number of
// calls. The median is not moved by what else the machine does now and then.
func median(ctx context.Context, d time.Duration, call func(context.Context) error) (us float64, n int, err error) {
	for range warmUp {
		if err := call(ctx); err != nil {
			return 0, 0, err
		}
	}
	var took []time.Duration
	for end := time.Now().Add(d); time.Now().Before(end) || len(took) < minCalls; {
		started := time.Now()
		if err := call(ctx); err != nil {
			return 0, 0, err
		}
		took = append(took, time.Since(started))
	}
	slices.Sort(took)
	return float64(took[len(took)/2]) / float64(time.Microsecond), len(took), nil
}

// round keeps three significant digits, which is more than is repeatable.
func round(v float64) float64 {
	short, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64)
	if err != nil {
		return v
	}
	return short
}
