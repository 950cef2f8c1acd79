// Package ledger is an MCP server for tests: it books amounts in a file, one line a call, and so shows how often a call took place.
//
// It does not dedupe. The line has the effect id that came with the call, so a test can tell a repeat from a second call.
package ledger

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// EffectMeta is the name of the effect id in the _meta of a call.
const EffectMeta = "gantry/effect"

// Line is one booking. Effect is empty where the caller gave none.
type Line struct {
	Account string `json:"account"`
	Amount  int64  `json:"amount"`
	Note    string `json:"note,omitempty"`
	Effect  string `json:"effect,omitempty"`
}

// Ledger is a file of bookings. Safe for concurrent use, by several processes too.
type Ledger struct {
	path string

	mu       sync.Mutex
	onAppend func(ctx context.Context, booked Line)
}

// Open returns the ledger in a file, which the first booking makes.
func Open(path string) *Ledger { return &Ledger{path: path} }

// OnAppend sets what happens after a line is on the disk and before the call is answered: tests hold answers up. Nil: nothing.
func (l *Ledger) OnAppend(hook func(ctx context.Context, booked Line)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onAppend = hook
}

// Append books a line. It is on the disk when Append returns.
func (l *Ledger) Append(line Line) error {
	raw, err := json.Marshal(line)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n')) // one write, so that lines of several processes don't mix
	return errors.Join(err, f.Sync(), f.Close())
}

// Lines reads all bookings.
func (l *Ledger) Lines() ([]Line, error) {
	raw, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var lines []Line
	for s := bufio.NewScanner(bytes.NewReader(raw)); s.Scan(); {
		var line Line
		if err := json.Unmarshal(s.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, line)
	}
	return lines, nil
}

type appendIn struct {
	Account string `json:"account" jsonschema:"whose account"`
	Amount  int64  `json:"amount" jsonschema:"what to book; negative takes away"`
	Note    string `json:"note,omitempty" jsonschema:"what for"`
}

type totalIn struct {
	Account string `json:"account" jsonschema:"whose account"`
}

// Total is the answer of the tool total.
type Total struct {
	Account string `json:"account"`
	Total   int64  `json:"total"`
	Lines   int    `json:"lines"`
}

// Server makes an MCP server of the ledger, with the tools append and total. Only total says that it is read-only.
func (l *Ledger) Server() *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: "ledger", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "append", Description: "Book an amount."}, l.book)
	mcp.AddTool(s, &mcp.Tool{Name: "total", Description: "Add up an account.", Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true}}, l.total)
	return s
}

// Handler serves the ledger over streamable HTTP, without sessions: it can be replaced by another one of the same file between two calls.
func (l *Ledger) Handler() http.Handler {
	return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return l.Server() }, &mcp.StreamableHTTPOptions{Stateless: true})
}

func (l *Ledger) book(ctx context.Context, req *mcp.CallToolRequest, in appendIn) (*mcp.CallToolResult, any, error) {
	line := Line{Account: in.Account, Amount: in.Amount, Note: in.Note}
	line.Effect, _ = req.Params.Meta[EffectMeta].(string)
	if err := l.Append(line); err != nil {
		return nil, nil, err
	}
	l.mu.Lock()
	hook := l.onAppend
	l.mu.Unlock()
	if hook != nil {
		hook(ctx, line)
	}
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("booked %d for %s", in.Amount, in.Account)}}}, nil, nil
}

func (l *Ledger) total(_ context.Context, _ *mcp.CallToolRequest, in totalIn) (*mcp.CallToolResult, Total, error) {
	lines, err := l.Lines()
	out := Total{Account: in.Account}
	for _, line := range lines {
		if line.Account == in.Account {
			out.Total += line.Amount
			out.Lines++
		}
	}
	return nil, out, err
}
