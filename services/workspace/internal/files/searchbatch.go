package files

import (
	"context"
	"runtime"
	"sync"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/trigram"
)

const (
	// loadBytes bounds how much content one batch of a search holds in memory.
	loadBytes = 8 << 20
	// loadFiles bounds how many files one batch holds.
	loadFiles = 512
	// smallFile is the size up to which files are searched in batches; larger ones stream.
	smallFile = 1 << 20
)

// batch is files that are loaded and searched together.
type batch struct {
	run   *grepRun
	files []Entry
	bytes int64
}

// batches searches a walk of any trees.
func (s *grepRun) batches(ctx context.Context, w *walker) error {
	m := s.view.merge(s.view.own, w.start, true, "")
	m.query = trigram.For(s.grep.Search.Needs())
	b := &batch{run: s}
	for {
		e, ok, err := m.next(ctx)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		wanted, err := w.wanted(ctx, m, e)
		if err != nil {
			return err
		}
		if e.Kind != KindFile || !wanted {
			continue
		}
		if err := b.add(ctx, e); err != nil {
			return err
		}
	}
	for _, text := range m.warnings {
		s.warn(text)
	}
	return b.flush(ctx)
}

func (b *batch) add(ctx context.Context, e Entry) error {
	if e.Size > smallFile {
		if err := b.flush(ctx); err != nil {
			return err
		}
		return b.run.stream(ctx, e)
	}
	b.files, b.bytes = append(b.files, e), b.bytes+e.Size
	if len(b.files) < loadFiles && b.bytes < loadBytes {
		return nil
	}
	return b.flush(ctx)
}

// fileHits is what one file of a batch gave.
type fileHits struct {
	hits   []fsops.Hit
	result fsops.FileResult
	err    error
}

// flush searches the batch on all processors and emits in order.
func (b *batch) flush(ctx context.Context) error {
	files := b.files
	b.files, b.bytes = nil, 0
	if len(files) == 0 {
		return ctx.Err()
	}
	data, err := b.run.load(ctx, files)
	if err != nil {
		return err
	}
	found := make([]fileHits, len(files))
	var wait sync.WaitGroup
	workers := min(runtime.GOMAXPROCS(0), len(files))
	for w := range workers {
		wait.Go(func() {
			for i := w; i < len(files) && ctx.Err() == nil; i += workers {
				if data[i] != nil {
					found[i].result, found[i].err = b.run.grep.Search.SearchBytes(data[i], b.run.taker(&found[i].hits))
				}
			}
		})
	}
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for i, f := range found {
		switch {
		case f.err != nil:
			err = f.err
		case data[i] == nil: // gone, changed or unreadable: look again, alone
			err = b.run.stream(ctx, files[i])
		default:
			b.run.count(files[i], f.result)
			err = b.run.sendAll(files[i].Path, files[i].Layer, f.hits)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// load fetches the contents of files, tree by tree.
func (s *grepRun) load(ctx context.Context, files []Entry) ([][]byte, error) {
	data := make([][]byte, len(files))
	byLayer := map[Layer][]int{}
	for i, e := range files {
		byLayer[e.Layer] = append(byLayer[e.Layer], i)
	}
	for layer, indexes := range byLayer {
		nodes := make([]Node, len(indexes))
		for i, at := range indexes {
			nodes[i] = files[at].Node
		}
		contents, err := s.view.treeOf(layer).Load(ctx, nodes...)
		if err != nil {
			return nil, err
		}
		for i, at := range indexes {
			data[at] = contents[i]
		}
	}
	return data, nil
}
