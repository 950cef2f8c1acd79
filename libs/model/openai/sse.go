package openai

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var errLongEvent = errors.New("an event of the stream is too long")

// events reads the data of server-sent events: comments and the fields other than data are skipped, the data lines of one
// event are joined. An event is handed on at its blank line, or at the end of the stream for servers that forget it.
type events struct {
	r *bufio.Reader
}

func newEvents(r io.Reader) *events { return &events{bufio.NewReaderSize(r, 32<<10)} }

// next is the data of the next event, or io.EOF.
func (e *events) next() ([]byte, error) {
	var data []byte
	have := false
	for {
		line, err := e.line(len(data))
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			if errors.Is(err, io.EOF) && have {
				return data, nil
			}
			return nil, err
		}
		if len(line) == 0 {
			if have {
				return data, nil
			}
			continue
		}
		value, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		if have {
			data = append(data, '\n')
		}
		data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
		have = true
	}
}

// line is the next line without its end; used is what the event has already.
func (e *events) line(used int) ([]byte, error) {
	var line []byte
	for {
		part, err := e.r.ReadSlice('\n')
		if line = append(line, part...); used+len(line) > maxEvent {
			return nil, errLongEvent
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return bytes.TrimRight(line, "\r\n"), err
	}
}
