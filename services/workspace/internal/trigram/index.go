package trigram

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// Index holds the signatures of the files of one space in memory, by key. Whoever holds it brings it up to date before each [Index.Select]; it may know files that are gone,
// which do no harm when candidates are looked up. It is not safe for concurrent changes.
type Index struct {
	entries []entry // in the order of keys
	bytes   int64
}

type entry struct {
	key    string
	filter []byte // nil: always a candidate
}

// entryBytes is what an entry takes beside its key and bits.
const entryBytes = 64

// Bytes is about how much memory the index takes.
func (x *Index) Bytes() int64 { return x.bytes }

// Len is how many files the index knows.
func (x *Index) Len() int { return len(x.entries) }

// Put adds a file, or replaces what was known about it. The signature is not kept.
func (x *Index) Put(key string, s Signature) {
	e := entry{key: key}
	if _, filter, ok := s.parts(); ok {
		e.filter = bytes.Clone(filter)
	}
	x.bytes += int64(len(key)+len(e.filter)) + entryBytes
	// Files that are read in order are added at the end.
	if n := len(x.entries); n == 0 || x.entries[n-1].key < key {
		x.entries = append(x.entries, e)
		return
	}
	i, found := x.find(key)
	if !found {
		x.entries = slices.Insert(x.entries, i, e)
		return
	}
	x.bytes -= int64(len(key)+len(x.entries[i].filter)) + entryBytes
	x.entries[i] = e
}

// Remove forgets a file.
func (x *Index) Remove(key string) {
	if i, found := x.find(key); found {
		x.bytes -= int64(len(key)+len(x.entries[i].filter)) + entryBytes
		x.entries = slices.Delete(x.entries, i, i+1)
	}
}

func (x *Index) find(key string) (int, bool) {
	return slices.BinarySearchFunc(x.entries, key, func(e entry, key string) int { return strings.Compare(e.key, key) })
}

// selectBlock is how many files are tested before it is looked whether there are enough candidates.
const selectBlock = 32 << 10

// Select returns the keys after after and before end that may match, in order, at most limit; more says that others may follow. end "": no bound.
func (x *Index) Select(q Query, after, end string, limit int) (keys []string, more bool) {
	from, found := x.find(after)
	if found {
		from++
	}
	to := len(x.entries)
	if end != "" {
		to, _ = x.find(end)
	}
	for ; from < to && len(keys) <= limit; from += selectBlock {
		for _, part := range test(x.entries[from:min(from+selectBlock, to)], q) {
			keys = append(keys, part...)
		}
	}
	if len(keys) > limit {
		return keys[:limit], true
	}
	return keys, false
}

// test returns the keys of those that may match, on all processors, in order.
func test(entries []entry, q Query) [][]string {
	const least = 2048 // below it, one processor is as quick
	workers := min(runtime.GOMAXPROCS(0), 1+len(entries)/least)
	parts := make([][]string, workers)
	var wait sync.WaitGroup
	for w := range workers {
		wait.Go(func() {
			for _, e := range entries[len(entries)*w/workers : len(entries)*(w+1)/workers] {
				if e.filter == nil || q.may(e.filter) {
					parts[w] = append(parts[w], e.key)
				}
			}
		})
	}
	wait.Wait()
	return parts
}
