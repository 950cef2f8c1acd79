package fsops

import (
	"encoding/binary"

	"golang.org/x/text/unicode/norm"
)

// notComposed returns a place at or after from where data is not in NFC, or -1. ASCII costs next to nothing.
func notComposed(data []byte, from int) int {
	for i := from; i < len(data); {
		if i+8 <= len(data) && binary.LittleEndian.Uint64(data[i:])&highBits == 0 {
			i += 8
			continue
		}
		if data[i] < 0x80 {
			i++
			continue
		}
		end := i + 1
		for end < len(data) && data[end] >= 0x80 {
			end++
		}
		// What precedes may join with what follows.
		if !norm.NFC.IsNormal(data[max(i-1, from):end]) {
			return i
		}
		i = end
	}
	return -1
}
