package idmeta

import (
	"errors"
	"strings"
)

const upperHex = "0123456789ABCDEF"

// errEncoding is returned by [Decode]; the caller says which key it was.
var errEncoding = errors.New("not percent-encoded")

// Encode percent-encodes a value: RFC 3986's unreserved characters stay, every other byte is "%XX".
func Encode(value string) string {
	var out strings.Builder
	out.Grow(len(value))
	for i := range len(value) {
		c := value[i]
		if unreserved(c) {
			out.WriteByte(c)
			continue
		}
		out.WriteByte('%')
		out.WriteByte(upperHex[c>>4])
		out.WriteByte(upperHex[c&0xf])
	}
	return out.String()
}

// Decode undoes [Encode]. Printable ASCII that stands for itself is accepted, since people type such headers by hand;
// "+" is a plus sign. A "%" without two hex digits and any byte outside of printable ASCII are errors.
func Decode(text string) (string, error) {
	var out strings.Builder
	out.Grow(len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '%' {
			if c < ' ' || c > '~' {
				return "", errEncoding
			}
			out.WriteByte(c)
			continue
		}
		if i+2 >= len(text) {
			return "", errEncoding
		}
		hi, lo := unhex(text[i+1]), unhex(text[i+2])
		if hi < 0 || lo < 0 {
			return "", errEncoding
		}
		out.WriteByte(byte(hi<<4 | lo))
		i += 2
	}
	return out.String(), nil
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func unhex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
