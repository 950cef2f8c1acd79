package files

import (
	"bytes"
	"context"
	"io"
	"runtime"
	"slices"
	"sync"

	"github.com/gantry-agents/gantry/libs/fsops"
)

const (
	// scanBuffer is how much of a file is searched in one piece; larger ones stream.
	scanBuffer = 1 << 20
	// scanFiles is how many files of one directory a processor takes at once.
	scanFiles = 64
)

// scanBuffers keeps the buffers that files are read into.
var scanBuffers = sync.Pool{New: func() any { b := make([]byte, scanBuffer); return &b }}

// scan searches a bucket of plain files: processors take directories and runs of files, and what they find is passed on in the order of paths.
type scan struct {
	run    *grepRun
	whites []string
	queue  *scanQueue
}

// scan searches below a directory of a view whose bucket is a [Scanner]. No goroutine is left when it returns.
func (s *grepRun) scan(ctx context.Context, base place, ignore *fsops.Ignore) error {
	root, err := s.view.openDirs(ctx, base, ignore)
	if err != nil {
		return err
	}
	defer root.release() // last: what is opened below may need it to the end
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := &scan{run: s, whites: base.whites, queue: newScanQueue(&scanTask{dirs: root.use()}, s.grep.MaxMatches)}
	var wait sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() { c.work(ctx) })
	}
	err = c.queue.drain(s.passOn)
	cancel()
	wait.Wait()
	c.queue.discard()
	s.end.Files += c.queue.files
	s.end.BinaryFiles += c.queue.binary
	return err
}

// passOn emits what one task found.
func (s *grepRun) passOn(t *scanTask) error {
	for _, w := range t.warnings {
		s.warn(w)
	}
	for _, f := range t.found {
		if err := s.sendAll(f.path, f.layer, f.hits); err != nil {
			return err
		}
	}
	return nil
}

// work takes tasks until there are none.
func (c *scan) work(ctx context.Context) {
	buf := scanBuffers.Get().(*[]byte)
	defer scanBuffers.Put(buf)
	for t := c.queue.take(); t != nil; t = c.queue.take() {
		err := ctx.Err()
		if err == nil && t.enter != nil {
			err = c.enter(ctx, t)
		}
		switch {
		case err != nil || t.dirs == nil:
		case t.files != nil:
			err = c.search(ctx, t, *buf)
		default:
			err = c.list(ctx, t)
		}
		t.dirs.release()
		t.dirs = nil
		c.queue.finish(t, err)
	}
}

// enter opens the directory of a task in the one above. One that is gone, or can't be read, ends the task only.
func (c *scan) enter(ctx context.Context, t *scanTask) error {
	above := t.dirs
	defer above.release()
	var err error
	t.dirs, err = above.enter(ctx, t.enter)
	return c.failed(ctx, t, above.path, t.enter.name, err)
}

// failed decides what an error at one place means: it ends the search only when the search itself is over.
func (c *scan) failed(ctx context.Context, t *scanTask, dir fsops.Path, name string, err error) error {
	switch {
	case err == nil || isGone(err):
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	t.warn(dir.Join(name).String() + ": " + publicText(err))
	return nil
}

// list turns a directory into tasks: runs of files, and directories, in the order of paths.
func (c *scan) list(ctx context.Context, t *scanTask) error {
	names, err := t.dirs.names(ctx, c.whites, t.warn)
	if err != nil {
		return err
	}
	if !c.run.grep.Ignored {
		if err := c.readIgnore(ctx, t, names); err != nil {
			return err
		}
	}
	var run *scanTask
	for i := range names {
		switch n := &names[i]; {
		case n.isFile && c.wants(t.dirs, n):
			if run == nil || len(run.files) == scanFiles {
				run = &scanTask{parent: t, dirs: t.dirs.use()}
				t.children = append(t.children, run)
			}
			run.files = append(run.files, n.file)
		case !n.isFile && c.enters(t.dirs, n):
			run = nil
			t.children = append(t.children, &scanTask{parent: t, dirs: t.dirs.use(), enter: n})
		}
	}
	return nil
}

// readIgnore adds what the .gitignore of a directory excludes.
func (c *scan) readIgnore(ctx context.Context, t *scanTask, names []scanName) error {
	i := slices.IndexFunc(names, func(n scanName) bool { return n.isFile && n.key == fsops.IgnoreFile })
	if i < 0 {
		return nil
	}
	f, err := t.dirs.dirs[names[i].file.layer].OpenFile(ctx, names[i].file.entry)
	if err == nil && f != nil {
		defer f.Close()
		var content []byte
		if content, err = io.ReadAll(io.LimitReader(f, fsops.MaxIgnoreBytes)); err == nil {
			t.dirs.ignore = t.dirs.ignore.With(t.dirs.path, content)
		}
	}
	return c.failed(ctx, t, t.dirs.path, fsops.IgnoreFile, err)
}

// wants says whether a file is part of the search.
func (c *scan) wants(dirs *openDirs, n *scanName) bool {
	g := &c.run.grep
	if g.Glob == nil && g.Allowed == nil && (g.Ignored || dirs.ignore.Empty()) {
		return true
	}
	if g.Glob != nil && !g.Glob.MayMatchName(n.key) {
		return false
	}
	p := dirs.path.Join(n.file.entry.Name)
	return (g.Glob == nil || g.Glob.Match(p.Rebase(c.run.base, fsops.Path{}))) && (g.Allowed == nil || g.Allowed(p)) && (g.Ignored || !dirs.ignore.Ignored(p, false))
}

// enters says whether the search goes into a directory.
func (c *scan) enters(dirs *openDirs, n *scanName) bool {
	p := dirs.path.Join(n.name)
	g := &c.run.grep
	return (g.Glob == nil || g.Glob.MayMatchBelow(p.Rebase(c.run.base, fsops.Path{}))) && (g.Ignored || !dirs.ignore.Ignored(p, true))
}

// search searches the files of a task.
func (c *scan) search(ctx context.Context, t *scanTask, buf []byte) error {
	for i := range t.files {
		file := &t.files[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := t.dirs.dirs[file.layer].OpenFile(ctx, file.entry)
		if err == nil && f != nil {
			err = c.file(ctx, t, file, f, buf)
			f.Close()
		}
		if err := c.failed(ctx, t, t.dirs.path, file.entry.Name, err); err != nil {
			return err
		}
		if t.hits > c.run.grep.MaxMatches {
			return nil // what follows is not passed on
		}
	}
	return nil
}

// file searches one file.
func (c *scan) file(ctx context.Context, t *scanTask, file *scanFile, f io.Reader, buf []byte) error {
	var hits []fsops.Hit
	take := c.run.taker(&hits)
	n, err := readUpTo(f, buf)
	if err != nil {
		return err
	}
	var result fsops.FileResult
	if n < len(buf) {
		result, err = c.run.grep.Search.SearchBytes(buf[:n], take)
	} else {
		result, err = c.run.grep.Search.Search(ctx, io.MultiReader(bytes.NewReader(buf), f), take)
	}
	if err != nil {
		return err
	}
	if result.Binary {
		t.binary++
		return nil
	}
	t.searched++
	if hits != nil {
		t.hits += min(len(hits), c.run.grep.MaxPerFile)
		t.found = append(t.found, scanned{path: t.dirs.path.Join(file.entry.Name), layer: c.run.view.layerOf(file.layer), hits: hits})
	}
	if text := c.run.inPieces(result); text != "" {
		t.warn(t.dirs.path.Join(file.entry.Name).String() + ": " + text)
	}
	return nil
}

// readUpTo fills buf, or reads to the end of the file.
func readUpTo(f io.Reader, buf []byte) (int, error) {
	n := 0
	for n < len(buf) {
		got, err := f.Read(buf[n:])
		n += got
		if err == io.EOF {
			break
		}
		if err != nil {
			return n, err
		}
	}
	return n, nil
}
