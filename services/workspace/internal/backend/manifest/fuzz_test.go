package manifest

import (
	"bytes"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// sample is an entry with an operation of each kind, and the state after it and one more.
func sample(t testing.TB) (*entry, *state) {
	t.Helper()
	at := time.UnixMicro(1_700_000_000_000_000).UTC()
	node := func(rev string, size int64) files.Node {
		return files.Node{Size: size, ModTime: at, Revision: rev, SHA256: "00ff", Mode: 0o644, Author: "ana"}
	}
	pieces := func(sizes ...int64) (out []piece) {
		for _, n := range sizes {
			out = append(out, newPieces(tag{1}, n)...)
		}
		return out
	}
	path := fsops.PathOf
	first := &entry{at: Position{1, 11}, time: at, generation: "g", ops: []op{
		{kind: opPut, path: path("d/a"), node: node("1", 3), pieces: pieces(3)},
		{kind: opPut, path: path("d/big"), node: node("2", 1<<20+5), pieces: pieces(1<<20 + 5), hash: []byte("state")},
		{kind: opExtend, path: path("d/a"), node: node("3", 7), keep: 1, pieces: pieces(4), kept: true},
		{kind: opRename, from: path("d/a"), path: path("b"), node: node("4", 7), kept: true},
		{kind: opMark, path: path("d/a"), removed: true},
		{kind: opPut, path: path("d/a"), node: node("5", 0)},
		{kind: opRename, from: path("d/a"), path: path("b"), node: node("6", 0), kept2: true},
		{kind: opRemove, path: path("d/big"), kept: true},
		{kind: opWhite, path: path("w")}, {kind: opWhite, path: path("v")}, {kind: opUnwhite, path: path("w")},
		{kind: opDrop, path: path("d/a"), number: 1},
		{kind: opLog, change: files.Change{Kind: files.ChangeMoved, Path: path("b"), From: path("d/a"), Revision: "4", Author: "ana"}},
		{kind: opEffect, effect: files.Effect{ID: "e", Hash: "h"}, outcome: []byte("out"), number: 1},
		{kind: opAged, when: at.Add(-time.Hour)},
	}}
	st := newState()
	if err := st.applyEntry(first, nil); err != nil {
		t.Fatal(err)
	}
	second := &entry{at: Position{2, 22}, after: 11, time: at.Add(time.Second), generation: "g", ops: []op{
		{kind: opPacked, number: 1, first: 1, last: 1, when: at, pieces: pieces(9)}, {kind: opSwept, number: 1}, {kind: opPruned, number: 1}, {kind: opOrphansSwept, when: at},
	}}
	if err := st.applyEntry(second, nil); err != nil {
		t.Fatal(err)
	}
	first.ops = append(first.ops, second.ops...)
	first.ops = append(first.ops, op{kind: opUnpacked, number: 1}, op{kind: opForget, name: "h"})
	return first, st
}

// What is encoded is decoded as it was.
func TestEncoding(t *testing.T) {
	n, st := sample(t)
	data := n.encode()
	again, err := decodeEntry(data)
	if err != nil || !bytes.Equal(again.encode(), data) {
		t.Errorf("an entry is another one after decoding: %v", err)
	}
	data = st.encode()
	back, err := decodeState(data)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(back.encode(), data) {
		t.Error("a state is another one after decoding")
	}
	if back.usage != st.usage || back.weight != st.weight || back.cursor() != st.cursor() {
		t.Errorf("counters %+v %d, want %+v %d", back.usage, back.weight, st.usage, st.weight)
	}
	for i := range data {
		damaged := bytes.Clone(data)
		damaged[i] ^= 0x20
		if _, err := decodeState(damaged); err == nil {
			t.Errorf("byte %d is wrong and nobody notices", i)
		}
	}
}

func FuzzEntry(f *testing.F) {
	n, _ := sample(f)
	data := n.encode()
	f.Add(data[headerBytes:])
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = decodeEntry(body)
		n, err := decodeEntry(seal(kindEntry, body))
		if err != nil {
			return
		}
		if again, err := decodeEntry(n.encode()); err != nil || !bytes.Equal(again.encode(), n.encode()) {
			t.Errorf("decoded once it is not what it is decoded twice: %v", err)
		}
		// Damaged entries are refused, and never make a state that is damaged.
		st := newState()
		n.at.Number, n.after = 1, 0
		if st.applyEntry(n, nil) != nil {
			return
		}
		if _, err := decodeState(st.encode()); err != nil {
			t.Errorf("a state that can't be decoded: %v", err)
		}
	})
}

func FuzzCheckpoint(f *testing.F) {
	_, st := sample(f)
	body, err := unseal(kindCheckpoint, st.encode())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body)
	f.Fuzz(func(t *testing.T, body []byte) {
		_, _ = decodeState(body)
		st, err := decodeState(seal(kindCheckpoint, body))
		if err != nil {
			return
		}
		if again, err := decodeState(st.encode()); err != nil || again.usage != st.usage {
			t.Errorf("decoded once it is not what it is decoded twice: %v", err)
		}
		st.each("", "", false, func(it *item) bool { return it.Exists() })
	})
}

func FuzzPack(f *testing.F) {
	n, _ := sample(f)
	var e encoder
	e.uint(1)
	e.bytes(n.encode())
	f.Add(e.out)
	f.Fuzz(func(_ *testing.T, body []byte) {
		_, _ = decodePack(body)
		_, _ = decodePack(seal(kindPack, body))
	})
}
