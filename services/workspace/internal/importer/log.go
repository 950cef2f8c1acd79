package importer

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	// maxLine bounds a line of a log; longer ones are left out.
	maxLine = 8 << 20
	// maxText bounds a text of a message, so that an event stays within what a journal takes.
	maxText = 1 << 20
	// maxCalls and maxArguments bound the calls of one message, maxResult the text of each result: an event is within what a journal takes.
	maxCalls     = 32
	maxArguments = 1 << 20
	maxResult    = 64 << 10
)

// Role is who speaks.
type Role uint8

// The roles of a log.
const (
	RoleUser Role = iota + 1
	RoleAssistant
	RoleTool
)

// Message is one message of a conversation: what somebody said, calls of tools, or their results.
type Message struct {
	// ID is unique within the thread.
	ID      string
	Role    Role
	Text    string
	Calls   []Call
	Results []Result
}

// Call is a call of a tool.
type Call struct {
	ID, Name, Arguments string
}

// Result answers a call. Missing: the log has none.
type Result struct {
	CallID, Name, Text string
	Missing            bool
}

// entry is a line of a log: a message, a tool_use or a tool_result.
type entry struct {
	Type, Kind   string
	ID           string          `json:"id"`
	Role         string          `json:"role"`
	Content      json.RawMessage `json:"content"`
	ToolCallID   string          `json:"toolCallId"`
	Name         string          `json:"name"`
	Input        json.RawMessage `json:"input"`
	Output       json.RawMessage `json:"output"`
	BlockTypes   []string        `json:"blockTypes"`
	Truncated    bool            `json:"truncated"`
	OriginalSize int64           `json:"originalSize"`
}

// kind is what a line is. Where it does not say so, its fields do.
func (e *entry) kind() string {
	kind := strings.ToLower(strings.ReplaceAll(e.Type+e.Kind, "-", "_"))
	switch {
	case kind != "":
		return kind
	case e.Input != nil:
		return "tool_use"
	case e.Output != nil:
		return "tool_result"
	case e.Role != "":
		return "message"
	}
	return "unknown"
}

// logReader makes messages of the lines of a log. Every call is followed by its results, whatever the log lacks, as models demand it.
type logReader struct {
	emit func(Message) error
	// skip is told how many lines were left out for a reason.
	skipped map[string]int

	line    int
	seen    map[string]bool // ids of lines
	calls   map[string]bool // ids of calls of the thread
	open    *Message        // the assistant's message that takes calls
	asked   []string        // the ids of its calls as the log has them
	bytes   int             // of the arguments
	results map[string]Result
}

// readLog reads a log to its end.
func readLog(ctx context.Context, in io.Reader, emit func(Message) error) (skipped map[string]int, err error) {
	l := &logReader{emit: emit, skipped: map[string]int{}, seen: map[string]bool{}, calls: map[string]bool{}}
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		text, long, err := readLine(r)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		l.line++
		switch {
		case long:
			l.skipped[fmt.Sprintf("longer than %d MiB", maxLine>>20)]++
		case len(bytes.TrimSpace(text)) > 0:
			if err := l.read(text); err != nil {
				return nil, err
			}
		}
		if err != nil {
			return l.skipped, l.flush()
		}
	}
}

// readLine reads one line. One that is too long is read over.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxLine {
			line, long = nil, true
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

func (l *logReader) read(text []byte) error {
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		l.skipped["no JSON object of the format"]++
		return nil
	}
	id := e.ID
	if id == "" {
		id = fmt.Sprintf("line-%d", l.line)
	}
	if l.seen[id] {
		l.skipped["written twice"]++
		return nil
	}
	l.seen[id] = true
	switch e.kind() {
	case "message":
		return l.message(&e, id)
	case "tool_use":
		return l.call(&e, id)
	case "tool_result":
		l.result(&e)
		return nil
	}
	l.skipped["of an unknown kind"]++
	return nil
}

func (l *logReader) message(e *entry, id string) error {
	if err := l.flush(); err != nil {
		return err
	}
	m := Message{ID: id, Text: e.text()}
	switch strings.ToUpper(e.Role) {
	case "USER":
		m.Role = RoleUser
	case "ASSISTANT":
		m.Role = RoleAssistant
	case "SYSTEM":
		l.skipped["of the system: prompts are made anew"]++
		return nil
	case "TOOL":
		l.skipped["text of a tool beside its result"]++
		return nil
	default:
		l.skipped["of an unknown role"]++
		return nil
	}
	if m.Text == "" {
		l.skipped["without text"]++
		return nil
	}
	if m.Role == RoleAssistant {
		l.begin(&m)
		return nil
	}
	return l.emit(m)
}

// begin opens a message that takes calls.
func (l *logReader) begin(m *Message) {
	l.open, l.asked, l.bytes, l.results = m, nil, 0, map[string]Result{}
}

// call adds a call to the message that was said before it, or makes a message of calls only.
func (l *logReader) call(e *entry, id string) error {
	if l.open == nil || len(l.results) > 0 || len(l.open.Calls) == maxCalls || l.bytes+len(e.Input) > maxArguments {
		if err := l.flush(); err != nil {
			return err
		}
		l.begin(&Message{ID: id, Role: RoleAssistant})
	}
	arguments := "{}"
	switch {
	case len(e.Input) > maxText:
		arguments = fmt.Sprintf(`{"_left_out_bytes":%d}`, len(e.Input))
	case len(e.Input) > 0 && string(e.Input) != "null":
		arguments = string(e.Input)
	}
	l.asked, l.bytes = append(l.asked, e.ToolCallID), l.bytes+len(arguments)
	l.open.Calls = append(l.open.Calls, Call{ID: l.unique(e.ToolCallID), Name: cut(clean(e.Name), 256), Arguments: arguments})
	return nil
}

// unique makes an id of a call that no other call of the thread has.
func (l *logReader) unique(id string) string {
	id = cut(clean(id), 200)
	if id == "" || l.calls[id] {
		id = fmt.Sprintf("%s@%d", id, l.line)
	}
	l.calls[id] = true
	return id
}

// result keeps the result of an open call: the first one without a result whose id it has.
func (l *logReader) result(e *entry) {
	if l.open != nil {
		for i, c := range l.open.Calls {
			if _, done := l.results[c.ID]; !done && l.asked[i] == e.ToolCallID {
				text := cut(textOf(e.Output), maxResult)
				if e.Truncated {
					text += fmt.Sprintf("\n[the log kept the beginning of %d characters]", e.OriginalSize)
				}
				l.results[c.ID] = Result{CallID: c.ID, Name: c.Name, Text: text}
				return
			}
		}
	}
	l.skipped["a result without its call"]++
}

// flush passes on the message that is open, with the results of its calls.
func (l *logReader) flush() error {
	m := l.open
	if m == nil {
		return nil
	}
	l.open = nil
	if err := l.emit(*m); err != nil || len(m.Calls) == 0 {
		return err
	}
	answer := Message{ID: m.ID + "/results", Role: RoleTool}
	for _, c := range m.Calls {
		r, ok := l.results[c.ID]
		if !ok {
			r = Result{CallID: c.ID, Name: c.Name, Text: "The log has no result of this call.", Missing: true}
		}
		answer.Results = append(answer.Results, r)
	}
	return l.emit(answer)
}
