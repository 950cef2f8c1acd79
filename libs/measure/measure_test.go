package measure_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/measure"
)

func TestRun(t *testing.T) {
	var ran []string
	part := func(name string, run func(*measure.B)) measure.Part {
		return measure.Part{Name: name, Run: func(b *measure.B) { ran = append(ran, name); run(b) }}
	}
	parts := []measure.Part{
		part("first", func(b *measure.B) { b.Report.AtMost("size", float64(b.Size(100)), 50) }),
		part("second", func(b *measure.B) { b.Say("half of it"); b.Skip("no server") }),
		part("broken", func(b *measure.B) { b.Must(errors.New("no disk")) }),
	}
	var out strings.Builder
	report, err := measure.Run(context.Background(), "bench-x", parts, "first|second", 0.5, &out)
	if err != nil || strings.Join(ran, " ") != "first second" || !report.OK() || len(report.Figures) != 2 || report.Figures[0].Value != 50.0 {
		t.Errorf("ran %v: %+v, %v", ran, report, err)
	}
	if got := out.String(); !strings.Contains(got, "bench: half of it\n") || !strings.Contains(got, "bench: second took") {
		t.Errorf("told %q", got)
	}
	if _, err := measure.Run(context.Background(), "bench-x", parts, "broken", 1, &out); err == nil || !strings.Contains(err.Error(), "no disk") {
		t.Errorf("a part that fails: %v", err)
	}
}

func TestQuantiles(t *testing.T) {
	all := []time.Duration{5, 1, 4, 2, 3}
	if got := measure.Median(all); got != 3 {
		t.Errorf("the median is %d", got)
	}
	if got := measure.Quantile(all, 0.99); got != 5 {
		t.Errorf("99 of 100 are below %d", got)
	}
	if all[0] != 5 {
		t.Error("the values were moved")
	}
}

func TestGroupDoesTogetherWhatComesTogether(t *testing.T) {
	begin, sizes, sum := make(chan struct{}), []int{}, 0
	g := measure.NewGroup(3, func(all []int) {
		<-begin
		sizes = append(sizes, len(all))
		for _, n := range all {
			sum += n
		}
	})
	var wait sync.WaitGroup
	for n := range 10 {
		wait.Go(func() { g.Do(n) })
	}
	close(begin)
	wait.Wait()
	g.Close()
	if sum != 45 || slices.Max(sizes) > 3 {
		t.Errorf("groups of %v, in all %d", sizes, sum)
	}
}
