package rpc

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	pb "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

// defaultCapture is what is kept of each stream when a request states nothing.
const defaultCapture = 1 << 20

// RunCommand implements SandboxService.
func (s *Server) RunCommand(ctx context.Context, req *pb.RunCommandRequest) (*pb.RunCommandResponse, error) {
	input := req.GetStdin()
	l, p, release, err := s.begin(ctx, req.GetSandboxId(), req.GetFencingToken(), req.GetSpec(), req.GetCommand(), len(input) > 0, input)
	if err != nil {
		return nil, err
	}
	defer release()
	if req.GetCancelOnDisconnect() {
		defer func() {
			if ctx.Err() != nil {
				abandon(ctx, l, p.ID())
			}
		}()
	}
	resp := &pb.RunCommandResponse{Started: started(l, p)}
	if len(input) > 0 && !p.Repeated() {
		fed := make(chan struct{})
		go func() {
			defer close(fed)
			_ = p.WriteStdin(input)
			_ = p.CloseStdin()
		}()
		if req.GetCommand().GetBackground() {
			<-fed // the connection that carries it ends with this call
		}
	}
	if req.GetCommand().GetBackground() {
		resp.Exit = goesOn()
		return resp, nil
	}
	most := req.GetCaptureBytes()
	if most <= 0 {
		most = defaultCapture
	}
	out, errs := newCapture(most), newCapture(most)
	for {
		e, err := p.Recv()
		if err != nil {
			return nil, err
		}
		if e.Exit != nil {
			resp.Exit = toExit(*e.Exit)
			break
		}
		c := out
		if e.Output.Stream == sandbox.Stderr {
			c = errs
		}
		c.add(e.Output)
	}
	resp.Stdout, resp.Stderr = out.result(), errs.result()
	for _, c := range []*capture{out, errs} {
		if c.omitted > 0 && (!resp.Exit.Truncated || c.firstOmitted < resp.Exit.TruncatedOffset) {
			resp.Exit.Truncated, resp.Exit.TruncatedOffset = true, c.firstOmitted
		}
	}
	return resp, nil
}

// capture keeps the beginning and the end of a stream.
type capture struct {
	most         int64
	head, tail   []byte
	omitted      int64
	firstOmitted int64 // position in all output of the exec
}

func newCapture(most int64) *capture { return &capture{most: most} }

func (c *capture) add(o *sandbox.Output) {
	data := o.Data
	if o.Skipped > 0 {
		c.drop(o.Skipped, o.Offset-o.Skipped)
	}
	if c.omitted == 0 && len(c.tail) == 0 {
		n := min(c.most/2-int64(len(c.head)), int64(len(data)))
		c.head, data = append(c.head, data[:n]...), data[n:]
	}
	if len(data) == 0 {
		return
	}
	if c.firstOmitted == 0 && c.omitted == 0 && len(c.tail) == 0 {
		c.firstOmitted = o.Offset + int64(len(o.Data)-len(data))
	}
	c.tail = append(c.tail, data...)
	// Trimmed at twice the size, so that each byte moves once on average.
	if keep := c.most - c.most/2; int64(len(c.tail)) > 2*keep {
		c.trim(keep)
	}
}

func (c *capture) trim(keep int64) {
	if n := int64(len(c.tail)) - keep; n > 0 {
		c.omitted += n
		c.tail = append(c.tail[:0], c.tail[n:]...)
	}
}

func (c *capture) drop(n, at int64) {
	if c.omitted == 0 && len(c.tail) == 0 {
		c.firstOmitted = at
	}
	c.omitted += n
}

func (c *capture) result() *pb.Capture {
	c.trim(c.most - c.most/2)
	if c.omitted == 0 {
		c.head, c.tail = append(c.head, c.tail...), nil
	}
	out := &pb.Capture{Head: c.head, Tail: c.tail, OmittedBytes: c.omitted}
	// The cut may have parted a character; the parts are not wrong bytes of the command.
	head, tail := c.head, c.tail
	if c.omitted > 0 {
		head, tail = bytes.TrimRightFunc(head, func(r rune) bool { return r == '\uFFFD' }), bytes.TrimLeftFunc(tail, func(r rune) bool { return r == '\uFFFD' })
	}
	text := strings.ToValidUTF8(string(head), "\uFFFD")
	if c.omitted > 0 {
		text += fmt.Sprintf("\n[… %d bytes left out …]\n", c.omitted) + strings.ToValidUTF8(string(tail), "\uFFFD")
	}
	out.Text = text
	out.Replaced = c.omitted > 0 || text != string(c.head)
	return out
}
