package fsops

import "bytes"

// pivot is a byte that every line with a match must hold, in one of two cases. It lets most lines be passed over at memory speed.
type pivot struct {
	usable       bool
	lower, upper byte
}

// common orders bytes by how often they are met in text and code, rarest last; the pivot is the rarest.
const common = " etaoinsrhldcumfpgwybv,.\"-'()_/:;=0123456789xkjqz"

// pivotOf picks the pivot of a pattern that is matched without regard to case. Letters k and s are no use: U+212A and U+017F fold to them.
func pivotOf(pattern string) pivot {
	best, rank := pivot{}, -1
	for i := range len(pattern) {
		c := pattern[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c >= 0x80 || c == 'k' || c == 's' || c == '\n' {
			continue
		}
		r := bytes.IndexByte([]byte(common), c)
		if r < 0 {
			r = len(common)
		}
		if r > rank {
			best, rank = pivot{usable: true, lower: c, upper: c}, r
			if 'a' <= c && c <= 'z' {
				best.upper = c - 'a' + 'A'
			}
		}
	}
	return best
}

func (p pivot) index(data []byte) int {
	low := bytes.IndexByte(data, p.lower)
	if p.lower == p.upper {
		return low
	}
	if low >= 0 {
		data = data[:low]
	}
	if up := bytes.IndexByte(data, p.upper); up >= 0 {
		return up
	}
	return low
}
