package measure

import "sync"

// Group puts what comes at the same time together, as a store does that groups its commits.
type Group[T any] struct {
	jobs chan groupJob[T]
	wait sync.WaitGroup
}

type groupJob[T any] struct {
	of   T
	done chan struct{}
}

// NewGroup makes a group whose do gets at most size things at once. Close ends it.
func NewGroup[T any](size int, do func([]T)) *Group[T] {
	g := &Group[T]{jobs: make(chan groupJob[T], size)}
	g.wait.Go(func() {
		for first := range g.jobs {
			jobs := []groupJob[T]{first}
			for more := true; more && len(jobs) < size; {
				select {
				case j, open := <-g.jobs:
					if more = open; open {
						jobs = append(jobs, j)
					}
				default:
					more = false
				}
			}
			all := make([]T, len(jobs))
			for i, j := range jobs {
				all[i] = j.of
			}
			do(all)
			for _, j := range jobs {
				close(j.done)
			}
		}
	})
	return g
}

// Do hands one thing over and waits until it is done.
func (g *Group[T]) Do(of T) {
	j := groupJob[T]{of, make(chan struct{})}
	g.jobs <- j
	<-j.done
}

// Close ends the group. Nobody may call Do any more.
func (g *Group[T]) Close() {
	close(g.jobs)
	g.wait.Wait()
}
