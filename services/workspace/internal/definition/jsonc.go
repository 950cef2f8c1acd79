package definition

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// object reads a JSON object that may have comments and commas before a closing bracket. The fault says where it does not parse.
func object(data []byte, reason string) (map[string]any, *fault) {
	text := strings.TrimPrefix(string(data), "\uFEFF")
	plain, open := withoutComments(text)
	at := func(offset int, format string, args ...any) *fault {
		line, column := position(text, offset)
		return &fault{reason: reason, message: fmt.Sprintf(format, args...), line: line, column: column}
	}
	if open >= 0 {
		return nil, at(open, "a comment has no end")
	}
	decoder := json.NewDecoder(strings.NewReader(plain))
	var out map[string]any
	err := decoder.Decode(&out)
	if err == nil && out == nil {
		return nil, at(0, "not a JSON object")
	}
	if err == nil {
		if _, more := decoder.Token(); more != io.EOF {
			return nil, at(int(decoder.InputOffset()), "something follows the object")
		}
		return out, nil
	}
	if se, ok := errors.AsType[*json.SyntaxError](err); ok {
		return nil, at(int(se.Offset)-1, "not JSON: %s", se.Error())
	}
	if te, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, at(int(te.Offset)-1, "not a JSON object but a %s", te.Value)
	}
	return nil, at(len(text), "not JSON: the text ends too early")
}

// withoutComments replaces comments, and commas before a closing bracket, by blanks, so that every byte keeps its place. open is where a comment without an end begins, else -1.
func withoutComments(text string) (plain string, open int) {
	out := []byte(text)
	comma := -1 // the last comma that only blanks have followed
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case c == '/' && i+1 < len(out) && out[i+1] == '/':
			for ; i < len(out) && out[i] != '\n'; i++ {
				out[i] = ' '
			}
		case c == '/' && i+1 < len(out) && out[i+1] == '*':
			end := strings.Index(text[i+2:], "*/")
			if end < 0 {
				return "", i
			}
			for stop := i + 2 + end + 2; i < stop; i++ {
				if out[i] != '\n' {
					out[i] = ' '
				}
			}
			i--
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\n' && c != '\r':
			comma = -1
		}
	}
	return string(out), -1
}

// position gives line and column, in bytes from 1, of an offset.
func position(text string, offset int) (line, column int) {
	offset = min(max(offset, 0), len(text))
	line = 1 + strings.Count(text[:offset], "\n")
	return line, offset - strings.LastIndexByte(text[:offset], '\n')
}
