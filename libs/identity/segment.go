package identity

import (
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// The encoding of ids into keys and paths.
//
//	a-z 0-9 - _ .   stay as they are, but "-" and "." not at the beginning of a name and "." not at its end
//	anything else   "=" and two lower-case hex digits for each byte; so also A-Z, every non-ASCII byte, "=", "~" and "+"
//	""              "~": anonymous, or none; no id can produce it
//	a long id       names of at most 200 bytes, joined by "/", each but the last ending in "+"
//	con, nul, …     the first byte is escaped: Windows has devices of these names, with any extension
//
// Hence only lower-case ASCII comes out, so that file systems which fold case or normalise Unicode keep ids apart; a
// name never begins with "." and is never "." or ".."; and since only unfinished names end in "+", the directory of one
// id never lies in that of another.
const (
	escape       = '='
	anonymous    = "~"
	continuation = "+"
	// MaxSegmentBytes bounds one name, so that suffixes such as ".lock" and ".tmp" still fit the 255 bytes of common
	// file systems.
	MaxSegmentBytes = 200
	hexDigits       = "0123456789abcdef"
)

// EncodeSegment returns id as one name, or as several joined by "/" when it is long. It is injective, safe where case
// is ignored, free of prefixes and undone by [DecodeSegment]. Any string is accepted, the empty one too.
func EncodeSegment(id string) string {
	if id == "" {
		return anonymous
	}
	var out strings.Builder
	out.Grow(len(id) + 8)
	used := 0 // bytes of the current name
	for i := range len(id) {
		token := 1
		escaped := mustEscape(id, i, used == 0)
		if escaped {
			token = 3
		}
		if used+token > MaxSegmentBytes-len(continuation) {
			out.WriteString(continuation + "/")
			used = 0
			escaped = mustEscape(id, i, true)
			token = 1
			if escaped {
				token = 3
			}
		}
		used += token
		if escaped {
			out.WriteByte(escape)
			out.WriteByte(hexDigits[id[i]>>4])
			out.WriteByte(hexDigits[id[i]&0xf])
			continue
		}
		out.WriteByte(id[i])
	}
	return out.String()
}

// mustEscape says whether byte i of id is escaped; first says that it begins a name.
func mustEscape(id string, i int, first bool) bool {
	c := id[i]
	switch {
	case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '_':
		return first && deviceName(id[i:])
	case c == '-':
		return first
	case c == '.':
		return first || i == len(id)-1
	}
	return true
}

// deviceName says whether a file of this name would be a device on Windows: the part before the first dot counts.
func deviceName(name string) bool {
	stem, _, _ := strings.Cut(name, ".")
	switch stem {
	case "con", "prn", "aux", "nul":
		return true
	}
	if len(stem) != 4 || stem[3] < '0' || stem[3] > '9' {
		return false
	}
	return stem[:3] == "com" || stem[:3] == "lpt"
}

// DecodeSegment undoes [EncodeSegment]. A text that EncodeSegment cannot produce is IDENTITY_MALFORMED, so every id has
// exactly one encoding.
func DecodeSegment(s string) (string, error) {
	if s == anonymous {
		return "", nil
	}
	var id strings.Builder
	id.Grow(len(s))
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case escape:
			if i+2 >= len(s) {
				return "", badSegment(s)
			}
			hi, lo := strings.IndexByte(hexDigits, s[i+1]), strings.IndexByte(hexDigits, s[i+2])
			if hi < 0 || lo < 0 {
				return "", badSegment(s)
			}
			id.WriteByte(byte(hi<<4 | lo))
			i += 2
		case continuation[0]:
			if i+1 >= len(s) || s[i+1] != '/' {
				return "", badSegment(s)
			}
			i++
		default:
			id.WriteByte(c)
		}
	}
	if id.Len() == 0 || EncodeSegment(id.String()) != s {
		return "", badSegment(s)
	}
	return id.String(), nil
}

func badSegment(s string) error {
	return errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, ReasonMalformed,
		"%q is not an encoded id", clip(s)).With("field", "segment")
}

// splitKey splits a key into its decoded ids. Names that end in the continuation mark belong to the next one.
func splitKey(key string) ([]string, error) {
	var ids []string
	start := 0
	for i := 0; i <= len(key); i++ {
		if i < len(key) && (key[i] != '/' || (i > 0 && key[i-1] == continuation[0])) {
			continue
		}
		id, err := DecodeSegment(key[start:i])
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
		start = i + 1
	}
	return ids, nil
}
