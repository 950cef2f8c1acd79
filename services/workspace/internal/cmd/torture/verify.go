package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// verify compares every bucket with the model, through every replica.
func (r *torturer) verify(ctx context.Context) {
	for _, c := range r.clients {
		for _, w := range r.workers {
			got, err := w.list(ctx, c, w.dir)
			if err != nil {
				r.fault(wrong, "%s list at the end: %v", w.bucket.name, err)
				continue
			}
			w.sameNames("listing at the end", got.names(), w.tree.below(w.dir))
			for _, p := range w.tree.below(w.dir) {
				info, content, err := w.download(ctx, c, p, "")
				w.compare("download at the end", p, err, content, info.GetRevision())
			}
			got, err = w.list(ctx, c, "")
			if err != nil {
				r.fault(wrong, "%s list at the end: %v", w.bucket.name, err)
			}
			for _, p := range got.names() {
				if !strings.HasPrefix(p, "w0/") && !strings.HasPrefix(p, "w1/") && !strings.HasPrefix(p, "together/") {
					r.fault(leaked, "%s has %s, which nobody wrote there", w.bucket.name, p)
				}
			}
		}
		for i := 0; i < len(r.workers); i += workersOfBucket {
			r.verifyTogether(ctx, r.workers[i:i+workersOfBucket])
		}
	}
}

// verifyTogether checks the files that the workers of a bucket changed at once.
func (r *torturer) verifyTogether(ctx context.Context, workers []*worker) {
	w := workers[0]
	_, content, err := w.download(ctx, w.client(), logFile, "")
	if err != nil && errdefs.ReasonOf(err) != fsops.ReasonPathNotFound {
		r.fault(wrong, "%s the log: %v", w.bucket.name, err)
		return
	}
	lines := strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
	at := map[string]int{}
	for i, line := range lines {
		if line == "" {
			continue
		}
		if _, twice := at[line]; twice {
			r.fault(doubled, "%s the log has the line %q twice", w.bucket.name, line)
		}
		at[line] = i
	}
	known := 0
	counted := 0
	for _, w := range workers {
		last := -1
		for _, line := range w.logged {
			i, there := at[line]
			switch {
			case !there:
				r.fault(lost, "%s the log lacks the line %q", w.bucket.name, line)
			case i < last:
				r.fault(wrong, "%s the line %q of the log is before an earlier one of the same worker", w.bucket.name, line)
			default:
				last = i
			}
		}
		known += len(w.logged)
		counted += w.counted
		for p, want := range w.made {
			if _, got, err := w.download(ctx, w.client(), p, ""); err != nil || string(got) != want {
				r.fault(lost, "%s %s holds %q, its maker wrote %q: %v", w.bucket.name, p, got, want, err)
			}
		}
	}
	if len(at) > known {
		r.fault(half, "%s the log has %d lines, %d were acknowledged", w.bucket.name, len(at), known)
	}
	_, content, err = w.download(ctx, w.client(), counterFile, "")
	n, _ := strconv.Atoi(strings.TrimSpace(string(content)))
	switch {
	case counted > 0 && err != nil, n < counted:
		r.fault(lost, "%s the counter is at %d, it was raised %d times: %v", w.bucket.name, n, counted, err)
	case n > counted:
		r.fault(doubled, "%s the counter is at %d, it was raised %d times", w.bucket.name, n, counted)
	}
}
