package measure

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Turns runs two things by turns and returns the median time of each. The first run of each is not counted.
func Turns(rounds int, baseline, measured func()) (base, took time.Duration) {
	var bases, times []time.Duration
	for i := range rounds + 1 {
		b, m := Timed(baseline), Timed(measured)
		if i > 0 {
			bases, times = append(bases, b), append(times, m)
		}
	}
	return Median(bases), Median(times)
}

// Timed is how long f takes.
func Timed(f func()) time.Duration {
	started := time.Now()
	f()
	return time.Since(started)
}

// Median is the middle one.
func Median(all []time.Duration) time.Duration { return Quantile(all, 0.5) }

// Quantile is the value below which a part of all lies.
func Quantile(all []time.Duration, part float64) time.Duration {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(part*float64(len(sorted))))]
}

// Rate runs f from some clients at once for a time and returns calls a second.
func Rate(clients int, d time.Duration, f func(client, call int)) float64 {
	var calls atomic.Int64
	var wait sync.WaitGroup
	started := time.Now()
	for c := range clients {
		wait.Go(func() {
			for n := 0; time.Since(started) < d; n++ {
				f(c, n)
				calls.Add(1)
			}
		})
	}
	wait.Wait()
	return float64(calls.Load()) / time.Since(started).Seconds()
}

// Rates measures two rates by turns and returns the median of their ratio, with the medians of both.
func Rates(rounds, clients int, d time.Duration, baseline, measured func(client, call int)) (ratio, base, got float64) {
	var ratios, bases, gots []float64
	for i := range rounds + 1 {
		// In turns, since what one leaves for the disk to do slows the next.
		var b, g float64
		if i%2 == 0 {
			b = Rate(clients, d, baseline)
			g = Rate(clients, d, measured)
		} else {
			g = Rate(clients, d, measured)
			b = Rate(clients, d, baseline)
		}
		if i > 0 {
			ratios, bases, gots = append(ratios, g/b), append(bases, b), append(gots, g)
		}
	}
	middle := func(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }
	return middle(ratios), middle(bases), middle(gots)
}

// Geometric is the geometric mean.
func Geometric(all []float64) float64 {
	sum := 0.0
	for _, v := range all {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(all)))
}

// Round2 keeps what a figure can mean.
func Round2(v float64) float64 { return math.Round(v*100) / 100 }

// Milliseconds is the time as a figure.
func Milliseconds(d time.Duration) float64 { return Round2(float64(d.Microseconds()) / 1000) }
