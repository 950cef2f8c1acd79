package cli

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progressEvery is how often progress is shown.
const progressEvery = 200 * time.Millisecond

// Progress shows on a terminal how far a transfer is. It is safe for use by several transfers at once; nil shows nothing.
type Progress struct {
	w     io.Writer
	mu    sync.Mutex
	files int64
	bytes int64
	all   int64 // 0: not known
	shown time.Time
	width int
}

// progress is shown on the standard error when that is a terminal and the output is for people.
func (t *Target) progress(env *Env) *Progress {
	if t.JSON || !isTerminal(env.Err) {
		return nil
	}
	return &Progress{w: env.Err}
}

// expect says how many bytes there will be in all.
func (p *Progress) expect(bytes int64) {
	if p != nil {
		p.mu.Lock()
		p.all = bytes
		p.mu.Unlock()
	}
}

// add counts bytes.
func (p *Progress) add(bytes int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += int64(bytes)
	if time.Since(p.shown) < progressEvery {
		return
	}
	p.shown = time.Now()
	text := sizeText(p.bytes)
	if p.all > 0 {
		text += fmt.Sprintf(" of %s, %d %%", sizeText(p.all), 100*p.bytes/p.all)
	}
	if p.files > 0 {
		text = count(p.files, "file") + ", " + text
	}
	fmt.Fprintf(p.w, "\r%-*s", p.width, text)
	p.width = len(text)
}

// file counts a file that is done.
func (p *Progress) file() {
	if p != nil {
		p.mu.Lock()
		p.files++
		p.mu.Unlock()
	}
}

// clear removes the line, so that what follows stands alone.
func (p *Progress) clear() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.width, "")
		p.width = 0
	}
}

// meter counts what is read.
type meter struct {
	io.Reader
	progress *Progress
}

// Read implements [io.Reader].
func (m meter) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	m.progress.add(n)
	return n, err
}
