package cli

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Env is what a command has beside its flags.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	Version  string
}

// Quiet is the log of a suite that runs inside a command: faults only. What goes wrong with a call is the command's own to say, in one line.
func (e *Env) Quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(e.Err, &slog.HandlerOptions{Level: slog.LevelError}))
}

// Line prints one line for people. What users and models wrote can't steer the terminal with it: control characters are shown, not sent.
func (e *Env) Line(format string, args ...any) {
	fmt.Fprintln(e.Out, Printable(fmt.Sprintf(format, args...)))
}

// Printable shows control characters, but for line feeds and tabs, as escapes.
func Printable(s string) string {
	harmless := func(r rune) bool { return r == '\n' || r == '\t' || !unicode.IsControl(r) && r != utf8.RuneError }
	if !strings.ContainsFunc(s, func(r rune) bool { return !harmless(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if harmless(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// JSON prints a message as one line of JSON.
func (e *Env) JSON(m proto.Message) error {
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	// The library spaces its output at random so that nobody compares bytes; lines are easier to read without.
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return e.Value(value)
}

// Value prints a value as one line of JSON.
func (e *Env) Value(v any) error {
	enc := json.NewEncoder(e.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Lines reads lines of the input, of at most 1 MiB each.
func (e *Env) Lines() *bufio.Scanner {
	s := bufio.NewScanner(e.In)
	s.Buffer(make([]byte, 0, 64<<10), 1<<20)
	return s
}

// errorValue prints a value as one line of JSON on the standard error.
func (e *Env) errorValue(v any) error {
	inner := *e
	inner.Out = e.Err
	return inner.Value(v)
}
