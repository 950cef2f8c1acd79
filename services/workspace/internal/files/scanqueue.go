package files

import (
	"sync"

	"github.com/gantry-agents/gantry/libs/fsops"
)

// maxFound bounds the bytes of hits that wait to be passed on.
const maxFound = 16 << 20

// scanTask is a directory to be listed, or a run of its files to be searched. The tasks of a search make a tree, whose order is that of the paths.
type scanTask struct {
	parent   *scanTask
	children []*scanTask
	passed   int // children that were passed on

	dirs  *openDirs
	enter *scanName  // the directory is this one in dirs, yet to be opened
	files []scanFile // of dirs; nil: the directory is to be listed

	done     bool
	found    []scanned
	hits     int // in found, as many as count
	warnings []string
	searched int64
	binary   int64
	bytes    int64
}

// scanned is what was found in one file.
type scanned struct {
	path  fsops.Path
	layer Layer
	hits  []fsops.Hit
}

func (t *scanTask) warn(text string) {
	if len(t.warnings) < maxWarnings {
		t.warnings = append(t.warnings, text)
	}
}

// scanQueue gives out tasks, the first in order first, and passes on what they found in order.
type scanQueue struct {
	mu     sync.Mutex
	free   sync.Cond // there is a task, or none will come
	ready  sync.Cond // there is something to pass on, or nothing will come
	stack  []*scanTask
	active int       // tasks in work
	at     *scanTask // the first that was not passed on whole; nil at the end
	out    []*scanTask
	bytes  int64 // of hits that wait
	hits   int64 // that were made ready
	most   int64 // hits that are of interest
	over   bool  // no more tasks
	err    error

	files, binary int64
}

func newScanQueue(first *scanTask, most int) *scanQueue {
	q := &scanQueue{stack: []*scanTask{first}, at: first, most: int64(most)}
	q.free.L, q.ready.L = &q.mu, &q.mu
	return q
}

// take returns the next task; nil when there is nothing left to do.
//
// While much waits to be passed on, no task is begun: the task that all wait for is in work, or is the next one and is given out when no other is in work.
func (q *scanQueue) take() *scanTask {
	q.mu.Lock()
	defer q.mu.Unlock()
	for !q.over {
		switch {
		case len(q.stack) == 0 && q.active == 0:
			q.end(nil)
		case len(q.stack) == 0, q.bytes > maxFound && (q.active > 0 || len(q.out) > 0):
			q.free.Wait()
		default:
			last := len(q.stack) - 1
			t := q.stack[last]
			q.stack[last], q.stack = nil, q.stack[:last]
			q.active++
			return t
		}
	}
	return nil
}

// finish takes a task back, with what it found and the tasks that it made.
func (q *scanQueue) finish(t *scanTask, err error) {
	for _, f := range t.found {
		for _, h := range f.hits {
			t.bytes += int64(len(h.Text)) + 200
			for _, line := range h.Before {
				t.bytes += int64(len(line)) + 16
			}
			for _, line := range h.After {
				t.bytes += int64(len(line)) + 16
			}
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.active--
	t.done, t.files, t.enter = true, nil, nil
	for i := len(t.children) - 1; i >= 0; i-- {
		q.stack = append(q.stack, t.children[i])
	}
	q.bytes += t.bytes
	q.advance()
	switch {
	case err != nil:
		q.end(err)
	case q.at == nil || q.hits > q.most:
		q.end(nil)
	case q.bytes > maxFound && q.active == 0, len(t.children) > 1, len(q.stack) == 0 && q.active == 0:
		q.free.Broadcast()
	}
}

// advance makes ready what comes next in order.
func (q *scanQueue) advance() {
	for t := q.at; t != nil && t.done; t = q.at {
		if t.passed == 0 {
			q.files += t.searched
			q.binary += t.binary
			if len(t.found)+len(t.warnings) > 0 {
				q.hits += int64(t.hits)
				q.out = append(q.out, t)
				q.ready.Signal()
			}
		}
		if t.passed == len(t.children) {
			t.passed++ // never again
			if q.at = t.parent; q.at != nil {
				continue
			}
			return
		}
		q.at = t.children[t.passed]
		t.children[t.passed] = nil
		t.passed++
	}
}

// end stops the giving out of tasks.
func (q *scanQueue) end(err error) {
	if !q.over {
		q.over, q.err = true, err
	}
	q.free.Broadcast()
	q.ready.Signal()
}

// drain passes on what is ready until there is nothing more, or pass fails.
func (q *scanQueue) drain(pass func(*scanTask) error) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		for len(q.out) == 0 && !q.over {
			q.ready.Wait()
		}
		batch := q.out
		q.out = nil
		if len(batch) == 0 {
			return q.err
		}
		q.mu.Unlock()
		err := passAll(batch, pass)
		q.mu.Lock()
		for _, t := range batch {
			q.bytes -= t.bytes
		}
		q.free.Broadcast()
		if err != nil {
			q.end(nil)
			return err
		}
	}
}

func passAll(batch []*scanTask, pass func(*scanTask) error) error {
	for _, t := range batch {
		err := pass(t)
		t.found, t.warnings = nil, nil
		if err != nil {
			return err
		}
	}
	return nil
}

// discard lets go of what was not begun.
func (q *scanQueue) discard() {
	for _, t := range q.stack {
		t.dirs.release()
	}
	q.stack = nil
}
