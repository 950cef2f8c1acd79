package bleveindex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/gantry-agents/gantry/services/memory/internal/index"
)

// verify checks the checksum that ends every segment file. A segment file of another length or content was torn or damaged.
func verify(dir string) error {
	segments, err := filepath.Glob(filepath.Join(globEscape(dir), "store", "*.zap"))
	if err != nil {
		return err
	}
	for _, path := range segments {
		if err := verifySegment(path); err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
	}
	return nil
}

func verifySegment(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil // removed by a merge that finished just now
	}
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if info.Size() < 8 {
		return errors.New("too short")
	}
	sum := crc32.NewIEEE()
	if _, err := io.CopyN(sum, f, info.Size()-4); err != nil {
		return err
	}
	var want [4]byte
	if _, err := io.ReadFull(f, want[:]); err != nil {
		return err
	}
	if binary.BigEndian.Uint32(want[:]) != sum.Sum32() {
		return errors.New("checksum does not fit")
	}
	return nil
}

// globEscape keeps characters of a directory name from being read as a pattern.
func globEscape(dir string) string {
	var out []byte
	for i := range len(dir) {
		switch dir[i] {
		case '*', '?', '[', '\\':
			out = append(out, '\\')
		}
		out = append(out, dir[i])
	}
	return string(out)
}

// guard turns a panic, and a fault in a mapped file, into damage. Use: defer guard(&err)().
func guard(err *error) func() {
	before := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(before)
		if r := recover(); r != nil {
			*err = fmt.Errorf("%w: %v", index.ErrDamaged, r)
		}
	}
}
