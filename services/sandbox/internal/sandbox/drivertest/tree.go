package drivertest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var bg = context.Background()

func put(tb testing.TB, tree sandbox.Tree, path, content string) {
	tb.Helper()
	if _, err := tree.Write(bg, path, strings.NewReader(content), sandbox.WriteOptions{}); err != nil {
		tb.Fatalf("Write(%q): %v", path, err)
	}
}

func get(tree sandbox.Tree, path string) (string, error) {
	f, err := tree.Open(bg, path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	return string(text), err
}

var treeCases = []Case{
	{Name: "files written from outside are seen inside, and the other way round", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		tree := Files(tb, in)
		var all bytes.Buffer
		for range 4096 {
			for b := range 256 {
				all.WriteByte(byte(b))
			}
		}
		put(tb, tree, "deep/er/bin", all.String())
		r := Script(tb, in, "stat -c %s deep/er/bin; cp deep/er/bin copy; echo more >> deep/er/bin; stat -c %a deep/er/bin")
		want(tb, "inside", r.Stdout, "1048576\n644\n")
		got, err := get(tree, "copy")
		want(tb, "round trip", err == nil && got == all.String(), true)
		entry, err := tree.Stat(bg, "/deep/er/bin")
		want(tb, "size", entry.Size, 1048581)
		want(tb, "error", err, nil)
	}},
	{Name: "hostile but legal names come through", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		tree := Files(tb, in)
		names := []string{"log 09:41.txt", "-rf", "it's $(id) \"q\".md", "a\nb.txt", "*.md", "back\\slash", ".hidden", strings.Repeat("長", 80), "\xff\xfe"}
		for _, n := range names {
			put(tb, tree, n, n)
		}
		list, err := tree.ReadDir(bg, "", "", 0)
		if err != nil || len(list) != len(names) {
			tb.Fatalf("ReadDir: %d of %d, %v", len(list), len(names), err)
		}
		for _, en := range list {
			if got, err := get(tree, en.Path); err != nil || got != en.Path {
				tb.Errorf("%q: %q %v", en.Path, got, err)
			}
		}
		want(tb, "inside", strings.TrimSpace(Script(tb, in, "ls -A -1 -b | wc -l").Stdout), "9")
	}},
	{Name: "no link leads out", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		tree := Files(tb, in)
		Script(tb, in, `mkdir -p d; ln -s /etc/passwd abs; ln -s / root; ln -s ../../../../etc/passwd rel; ln -s /proc/self/root magic; ln -s .. up; ln -s loop loop
			ln -s /no/where/new.txt dangling; ln -s ../.. d/up; echo hello > real; ln -s real fine; ln -s ../real d/fine`)
		for _, p := range []string{"abs", "root/etc/passwd", "rel", "magic/etc/passwd", "up/etc", "loop", "d/up/etc/passwd", "dangling"} {
			if got, err := get(tree, p); err == nil {
				tb.Errorf("%s was read: %.20q", p, got)
			}
			if _, err := tree.Write(bg, p, strings.NewReader("x"), sandbox.WriteOptions{}); err == nil {
				tb.Errorf("%s was written", p)
			}
			if _, err := tree.ReadDir(bg, p, "", 0); err == nil {
				tb.Errorf("%s was listed", p)
			}
		}
		for _, p := range []string{"../x", "/../etc/passwd", "a/../../x", "a\x00b", strings.Repeat("x/", 3000)} {
			if _, err := tree.Stat(bg, p); !errors.Is(err, errdefs.ErrInvalidArgument) {
				tb.Errorf("%.20q: %v", p, err)
			}
		}
		for _, p := range []string{"fine", "d/fine"} {
			if got, err := get(tree, p); err != nil || got != "hello\n" {
				tb.Errorf("%s, which stays inside: %q %v", p, got, err)
			}
			put(tb, tree, p, "changed")
			want(tb, "still a link", strings.TrimSpace(Script(tb, in, "readlink "+p+" | head -c 40; cat real").Stdout) != "", true)
			if got, _ := get(tree, "real"); got != "changed" {
				tb.Errorf("writing through %s gave %q", p, got)
			}
			put(tb, tree, "real", "hello\n")
		}
	}},
	{Name: "pipes, sockets and devices are never opened", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		tree := Files(tb, in)
		Script(tb, in, `mkfifo pipe; perl -MSocket -e 'socket(S,PF_UNIX,SOCK_STREAM,0); bind(S,sockaddr_un("sock"))'`)
		start := time.Now()
		for _, p := range []string{"pipe", "sock"} {
			if _, err := get(tree, p); reason(err) != "NOT_REGULAR" {
				tb.Errorf("read of %s: %v", p, err)
			}
			if _, err := tree.Write(bg, p, strings.NewReader("x"), sandbox.WriteOptions{}); reason(err) != "NOT_REGULAR" {
				tb.Errorf("write of %s: %v", p, err)
			}
			if _, _, err := tree.Append(bg, p, []byte("x"), false); reason(err) != "NOT_REGULAR" {
				tb.Errorf("append to %s: %v", p, err)
			}
			if st, err := tree.Stat(bg, p); err != nil || st.Kind == 0 || st.Kind == fs.ModeDir {
				tb.Errorf("stat of %s: %+v %v", p, st, err)
			}
		}
		if d := time.Since(start); d > time.Second {
			tb.Errorf("it took %s", d)
		}
		if err := tree.Remove(bg, "pipe", false); err != nil {
			tb.Error(err)
		}
	}},
	{Name: "conditions of a write hold", Run: func(tb testing.TB, e *Env) {
		tree := Files(tb, e.New(tb))
		var created int
		var mu sync.Mutex
		var all sync.WaitGroup
		for range 32 {
			all.Go(func() {
				_, err := tree.Write(bg, "once", strings.NewReader("x"), sandbox.WriteOptions{CreateOnly: true})
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					created++
				} else if !errors.Is(err, errdefs.ErrAlreadyExists) {
					tb.Errorf("create: %v", err)
				}
			})
		}
		all.Wait()
		want(tb, "creations", created, 1)
		v1, _ := tree.Stat(bg, "once")
		put(tb, tree, "once", "y")
		if _, err := tree.Write(bg, "once", strings.NewReader("z"), sandbox.WriteOptions{IfRevision: v1.Revision}); !errors.Is(err, errdefs.ErrAborted) {
			tb.Errorf("write from an old read: %v", err)
		}
		v2, _ := tree.Stat(bg, "once")
		if _, err := tree.Write(bg, "once", strings.NewReader("z"), sandbox.WriteOptions{IfRevision: v2.Revision, Mode: 0o755}); err != nil {
			tb.Errorf("write from the current read: %v", err)
		}
		st, _ := tree.Stat(bg, "once")
		want(tb, "mode", st.Mode, 0o755)
		if _, err := tree.Write(bg, "once", strings.NewReader(strings.Repeat("l", 100)), sandbox.WriteOptions{MaxBytes: 99}); reason(err) != "TOO_LARGE" {
			tb.Errorf("too large: %v", err)
		}
		got, _ := get(tree, "once")
		want(tb, "content after a failed write", got, "z")
	}},
	{Name: "appends lose nothing", Run: func(tb testing.TB, e *Env) {
		tree := Files(tb, e.New(tb))
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range 25 {
					if _, _, err := tree.Append(bg, "log", []byte("line"), true); err != nil {
						tb.Errorf("append: %v", err)
					}
				}
			})
		}
		all.Wait()
		got, _ := get(tree, "log")
		want(tb, "lines", strings.Count(got+"\n", "line\n"), 200)
	}},
	{Name: "move and remove", Run: func(tb testing.TB, e *Env) {
		in := e.New(tb)
		tree := Files(tb, in)
		put(tb, tree, "a/one", "1")
		put(tb, tree, "b", "2")
		if err := tree.Rename(bg, "a/one", "b", false); reason(err) != "PATH_EXISTS" {
			tb.Errorf("move onto something: %v", err)
		}
		if err := tree.Rename(bg, "a/one", "c/new/one", false); err != nil {
			tb.Errorf("move: %v", err)
		}
		if err := tree.Rename(bg, "c", "c/new/c", false); !errors.Is(err, errdefs.ErrInvalidArgument) {
			tb.Errorf("move into itself: %v", err)
		}
		if err := tree.Rename(bg, "gone", "x", false); !errors.Is(err, errdefs.ErrNotFound) {
			tb.Errorf("move of nothing: %v", err)
		}
		if err := tree.Remove(bg, "c", false); reason(err) != "DIRECTORY_NOT_EMPTY" {
			tb.Errorf("remove of a full directory: %v", err)
		}
		Script(tb, in, "ln -s ../b c/link; mkfifo c/pipe")
		if err := tree.Remove(bg, "c", true); err != nil {
			tb.Errorf("remove: %v", err)
		}
		got, err := get(tree, "b")
		want(tb, "the link's target", got, "2")
		want(tb, "its error", err, nil)
		for _, p := range []string{"", ".", "/", "a/.."} {
			if err := tree.Remove(bg, p, true); !errors.Is(err, errdefs.ErrInvalidArgument) {
				tb.Errorf("remove of %q: %v", p, err)
			}
		}
		if err := tree.Remove(bg, "gone", true); !errors.Is(err, errdefs.ErrNotFound) {
			tb.Errorf("remove of nothing: %v", err)
		}
	}},
	{Name: "a full workspace is a typed error and keeps the old file", Needs: limited, Run: func(tb testing.TB, e *Env) {
		tree := Files(tb, e.New(tb, small))
		put(tb, tree, "f", "old")
		if _, err := tree.Write(bg, "f", strings.NewReader(strings.Repeat("x", 16<<20)), sandbox.WriteOptions{}); reason(err) != "QUOTA_EXCEEDED" {
			tb.Errorf("write: %v", err)
		}
		got, _ := get(tree, "f")
		want(tb, "content", got, "old")
		list, _ := tree.ReadDir(bg, "", "", 0)
		want(tb, "entries", len(list), 1)
		u, err := tree.Usage(bg)
		if err != nil || u.LimitBytes != 8<<20 || u.Bytes > 1<<20 {
			tb.Errorf("usage: %+v %v", u, err)
		}
	}},
}
