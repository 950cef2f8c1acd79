package cli

import (
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// FsCat prints.
type FsCat struct {
	Target
	OneLayer
	Path     string `arg:"" help:"File."`
	Offset   int64  `help:"First byte to print, from 0." xor:"from"`
	Bytes    int64  `help:"Print at most so many bytes. 0: all." xor:"much"`
	Lines    string `help:"Print these lines, from 1: 10, 10:20, 10: or :20." xor:"from,much"`
	Revision string `help:"Print this version, as gantry fs history shows it."`
}

// Help shows an example.
func (FsCat) Help() string {
	return example("gantry fs cat AGENTS.md --agent coder --user ana", "gantry fs cat build.log --lines 200:250 --user ana", "gantry fs cat data.bin --offset 1048576 --user ana | xxd")
}

// span is a part of a file.
type span struct {
	first, lines int64 // lines from 0; 0 lines: no bound
	offset       int64
	bytes        int64 // 0: no bound
}

func (c *FsCat) span() (span, error) {
	s := span{offset: c.Offset, bytes: c.Bytes}
	if c.Offset < 0 || c.Bytes < 0 {
		return s, problem(errdefs.ErrInvalidArgument, "RANGE_INVALID", "--offset and --bytes are not negative")
	}
	if c.Lines == "" {
		return s, nil
	}
	from, to, isRange := strings.Cut(c.Lines, ":")
	first, last := int64(1), int64(0)
	var err, err2 error
	if from != "" {
		first, err = strconv.ParseInt(from, 10, 64)
	}
	if !isRange {
		last = first
	} else if to != "" {
		last, err2 = strconv.ParseInt(to, 10, 64)
	}
	if err != nil || err2 != nil || first < 1 || last < 0 || last > 0 && last < first || from+to == "" {
		return s, problem(errdefs.ErrInvalidArgument, "RANGE_INVALID", "--lines is %q: write 10, 10:20, 10: or :20", c.Lines)
	}
	s.first = first - 1
	if last > 0 {
		s.lines = last - first + 1
	}
	return s, nil
}

// Run prints the bytes as they are; to a terminal, control characters are shown and not sent. The file is never in memory as a whole.
func (c *FsCat) Run(ctx context.Context, env *Env) error {
	part, err := c.span()
	if err != nil {
		return err
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		if part.first > 0 {
			got, err := clients.Files.Read(ctx, &fsv1.ReadRequest{Path: c.Path, OffsetLines: part.first, LimitLines: 1, LimitBytes: 1, Layer: c.layer(), Revision: c.Revision})
			if err != nil {
				return err
			}
			part.offset = got.GetStartByte()
		}
		return c.print(ctx, env, clients.Files, part)
	})
}

func (c *FsCat) print(ctx context.Context, env *Env, files fsv1.FilesystemServiceClient, part span) error {
	out := io.Writer(env.Out)
	if isTerminal(env.Out) {
		out = &harmlessWriter{out: env.Out}
	}
	at, size, left := part.offset, int64(0), part.lines
	req := &fsv1.DownloadRequest{Path: c.Path, OffsetBytes: part.offset, Layer: c.layer(), Revision: c.Revision}
	err := receive(ctx, files, req, func(info *fsv1.FileInfo) error {
		size = info.GetSizeBytes()
		if c.JSON {
			return env.JSON(&fsv1.DownloadResponse{Part: &fsv1.DownloadResponse_Header{Header: info}})
		}
		return nil
	}, func(chunk []byte) error {
		cut := false
		if room := part.offset + part.bytes - at; part.bytes > 0 && int64(len(chunk)) >= room {
			chunk, cut = chunk[:room], true
		}
		if part.lines > 0 {
			chunk, left = firstLines(chunk, left)
			cut = left == 0
		}
		at += int64(len(chunk))
		if err := c.chunk(env, out, chunk); err != nil {
			return err
		}
		if cut {
			return errEnough
		}
		return nil
	})
	if err = enough(err); err != nil {
		return err
	}
	if h, ok := out.(*harmlessWriter); ok {
		if err := h.flush(); err != nil {
			return err
		}
	}
	switch {
	case c.JSON:
		return env.JSON(&fsv1.DownloadResponse{Part: &fsv1.DownloadResponse_End{End: &fsv1.DownloadEnd{SentBytes: max(0, at-part.offset)}}})
	case at < size && part.lines > 0:
		env.Note("more follows: --lines %d:", part.first+part.lines+1)
	case at < size:
		env.Note("more follows: --offset %d", at)
	}
	return nil
}

func (c *FsCat) chunk(env *Env, out io.Writer, chunk []byte) error {
	if c.JSON {
		return env.JSON(&fsv1.DownloadResponse{Part: &fsv1.DownloadResponse_Chunk{Chunk: chunk}})
	}
	_, err := out.Write(chunk)
	return err
}

// firstLines returns the beginning of chunk with at most n line ends, and how many of n are left.
func firstLines(chunk []byte, n int64) ([]byte, int64) {
	for at := 0; n > 0; n-- {
		i := bytes.IndexByte(chunk[at:], '\n')
		if i < 0 {
			return chunk, n
		}
		if at += i + 1; n == 1 {
			return chunk[:at], 0
		}
	}
	return nil, 0
}

// harmlessWriter shows control characters instead of sending them, also where a character is cut between two writes.
type harmlessWriter struct {
	out  io.Writer
	rest []byte
}

// Write implements [io.Writer].
func (w *harmlessWriter) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	end := len(w.rest)
	for i := 1; i < utf8.UTFMax && i <= end; i++ {
		if b := w.rest[end-i]; utf8.RuneStart(b) {
			if !utf8.FullRune(w.rest[end-i:]) {
				end -= i
			}
			break
		}
	}
	text := string(w.rest[:end])
	w.rest = append(w.rest[:0], w.rest[end:]...)
	_, err := io.WriteString(w.out, Printable(text))
	return len(p), err
}

func (w *harmlessWriter) flush() error {
	_, err := io.WriteString(w.out, Printable(string(w.rest)))
	w.rest = nil
	return err
}
