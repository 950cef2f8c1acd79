package manifesttest

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Bench measures a bucket of 50,000 files of 2 KiB: a search through all of them, and single calls.
func Bench(b *testing.B, open func(testing.TB) files.Store) {
	store := open(b)
	const dirs, each = 500, 100
	body := strings.Repeat("some text that is no needle and goes on for a while\n", 40)
	for d := range dirs {
		_, err := store.Update(b.Context(), space, files.Effect{}, func(ctx context.Context, tx files.Tx) ([]byte, error) {
			for i := range each {
				text := body
				if (d*each+i)%1000 == 0 {
					text += "a needle here\n"
				}
				staged, err := store.Stage(ctx, strings.NewReader(text), 0)
				if err != nil {
					return nil, err
				}
				if _, err := tx.Put(ctx, files.File{Path: fsops.PathOf(fmt.Sprintf("d%d/f%d.txt", d, i)), Content: staged, Mode: 0o644, Author: "bench"}); err != nil {
					return nil, err
				}
			}
			return nil, nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	search, err := fsops.CompileGrep(fsops.GrepRequest{Pattern: "needle here"})
	if err != nil {
		b.Fatal(err)
	}
	grep := func(s files.Store) time.Duration {
		begun := time.Now()
		end, err := view(s, space).Grep(b.Context(), files.Grep{Search: search, MaxMatches: 1000, MaxPerFile: 10, MaxTime: 5 * time.Minute}, func(files.Hit) error { return nil })
		if err != nil || end.Matches != 50 || end.Files != dirs*each || end.Reason != "" {
			b.Fatalf("%+v, %v", end, err)
		}
		return time.Since(begun)
	}
	b.Run("grep cold", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			fresh := open(b)
			b.StartTimer()
			grep(fresh)
		}
	})
	b.Run("grep warm", func(b *testing.B) {
		grep(store)
		for b.Loop() {
			grep(store)
		}
	})
	b.Run("stat", func(b *testing.B) {
		for b.Loop() {
			if _, err := view(store, space).Stat(b.Context(), fsops.PathOf("d7/f7.txt")); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write", func(b *testing.B) {
		for b.Loop() {
			if _, err := tryWrite(b.Context(), store, space, call, files.Write{Path: fsops.PathOf("d7/new.txt")}, strings.NewReader(body)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("append", func(b *testing.B) {
		for b.Loop() {
			if _, err := view(store, space).Append(b.Context(), call, fsops.PathOf("log"), []byte("one line\n"), false); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("write at once", func(b *testing.B) {
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := tryWrite(b.Context(), store, space, call, files.Write{Path: fsops.PathOf("d8/new.txt")}, strings.NewReader(body)); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
