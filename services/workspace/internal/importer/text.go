package importer

import (
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// text is what a message says. One of images only says so, that the conversation stays whole.
func (e *entry) text() string {
	text := textOf(e.Content)
	if text == "" && len(e.BlockTypes) > 0 && e.BlockTypes[0] != "empty" {
		text = cut(clean("["+strings.Join(e.BlockTypes, ", ")+", not in the log]"), 1000)
	}
	return text
}

// textOf reads a text: a JSON string, or whatever else as it is.
func textOf(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	if json.Unmarshal(raw, &s) != nil {
		s = string(raw)
	}
	return cut(strings.ToValidUTF8(s, "\uFFFD"), maxText)
}

// clean makes an id or name of a log one that can be kept.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "")
}

// cut shortens a text to n bytes, with a mark.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	end := n
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
