package modeltest

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/model"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// classes says which class each kind has for a caller that knows only errdefs.
var classes = map[model.Kind]error{
	model.KindBadRequest: errdefs.ErrInvalidArgument, model.KindUnknownModel: errdefs.ErrNotFound, model.KindUnsupported: errdefs.ErrUnimplemented,
	model.KindAuth: errdefs.ErrFailedPrecondition, model.KindRateLimited: errdefs.ErrResourceExhausted, model.KindOverloaded: errdefs.ErrUnavailable,
	model.KindUnavailable: errdefs.ErrUnavailable, model.KindTimeout: errdefs.ErrDeadlineExceeded, model.KindContextOverflow: errdefs.ErrOutOfRange,
	model.KindInternal: errdefs.ErrInternal,
}

func (s suite) wantKind(t testkit.T, err error, want model.Kind) {
	t.Helper()
	kind, ok := model.KindOf(err)
	if !ok || kind != want {
		t.Errorf("error = %v (kind %v, typed %v), want kind %v", err, kind, ok, want)
		return
	}
	if !errors.Is(errdefs.ClassOf(err), classes[want]) {
		t.Errorf("class of %v = %v, want %v", kind, errdefs.ClassOf(err), classes[want])
	}
	if errdefs.ReasonOf(err) == "" {
		t.Errorf("%v has no reason", err)
	}
}

func (s suite) unknownModel(t testkit.T) {
	if s.UnknownModel == "" {
		t.Skip("the provider takes any name")
	}
	req := s.request(s.Text)
	req.Model = s.UnknownModel
	_, err := s.fail(t, s.New(t), req)
	s.wantKind(t, err, model.KindUnknownModel)
	if model.Retryable(err) {
		t.Error("an unknown model is said to be worth a retry")
	}
}

func (s suite) overflow(t testkit.T) {
	if s.Overflow == "" {
		t.Skip("the provider has no window")
	}
	_, err := s.fail(t, s.New(t), s.request(s.Overflow))
	s.wantKind(t, err, model.KindContextOverflow)
}

var errGone = errors.New("the caller is gone")

// wantEnded checks an error that the caller's context caused.
func (s suite) wantEnded(t testkit.T, ctx context.Context, err error) {
	t.Helper()
	if err == nil || !errors.Is(err, context.Cause(ctx)) && !errors.Is(err, ctx.Err()) {
		t.Errorf("error = %v, want the context's: %v", err, context.Cause(ctx))
	}
}

func (s suite) cancelledBefore(t testkit.T) {
	ctx, cancel := context.WithCancelCause(s.context(t))
	cancel(errGone)
	stream, err := s.New(t).Generate(ctx, s.request(s.Text))
	if err == nil {
		defer stream.Close()
		_, err = stream.Next()
	}
	s.wantEnded(t, ctx, err)
}

func (s suite) cancelledDuring(t testkit.T) {
	if s.Long == "" {
		t.Skip("no long answer in the profile")
	}
	ctx, cancel := context.WithCancelCause(s.context(t))
	defer cancel(nil)
	stream := s.started(t, ctx)
	cancel(errGone)
	s.wantEnded(t, ctx, s.drain(t, stream))
}

func (s suite) deadline(t testkit.T) {
	if s.Long == "" {
		t.Skip("no long answer in the profile")
	}
	ctx, cancel := context.WithDeadline(s.context(t), time.Now().Add(-time.Second))
	defer cancel()
	stream, err := s.New(t).Generate(ctx, s.request(s.Long))
	if err == nil {
		err = s.drain(t, stream)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error = %v, want the deadline's", err)
	}
}

func (s suite) closedDuring(t testkit.T) {
	if s.Long == "" {
		t.Skip("no long answer in the profile")
	}
	stream := s.started(t, s.context(t))
	for range 2 {
		if err := stream.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
	if err := s.drain(t, stream); err == nil {
		t.Error("the answer went on to its end although the stream was closed")
	}
}

// started is an answer of which one event has come.
func (s suite) started(t testkit.T, ctx context.Context) model.Stream {
	t.Helper()
	stream, err := s.New(t).Generate(ctx, s.request(s.Long))
	if err != nil {
		t.Fatalf("Generate: %v", err)
	}
	t.Cleanup(func() { stream.Close() })
	if _, err := stream.Next(); err != nil {
		t.Fatalf("first event: %v", err)
	}
	return stream
}

// drain reads what is left, and fails when that takes longer than the profile's patience. It returns nil at the end of a
// whole answer.
func (s suite) drain(t testkit.T, stream model.Stream) error {
	t.Helper()
	end := make(chan error, 1)
	go func() {
		for {
			if _, err := stream.Next(); err != nil {
				end <- err
				return
			}
		}
	}()
	select {
	case err := <-end:
		stream.Close()
		if errors.Is(err, io.EOF) {
			return nil
		}
		return err
	case <-time.After(s.Patience):
		stream.Close()
		t.Fatalf("Next still blocks after %s", s.Patience)
		return nil
	}
}

func (s suite) concurrent(t testkit.T) {
	p := s.New(t)
	const n = 4
	errs := make(chan error, n)
	for range n {
		go func() {
			stream, err := p.Generate(s.context(t), s.request(s.Text))
			if err != nil {
				errs <- err
				return
			}
			r, err := model.Collect(stream)
			if err == nil && !strings.Contains(r.Message.Text(), s.Answer) {
				err = errors.New("another answer: " + r.Message.Text())
			}
			errs <- err
		}()
	}
	for range n {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func (s suite) embeddings(t testkit.T) {
	p := s.New(t)
	if s.EmbedModel == "" {
		_, err := p.Embed(s.context(t), model.EmbedRequest{Model: s.Model, Texts: []string{"a"}})
		s.wantKind(t, err, model.KindUnsupported)
		return
	}
	texts := []string{"the cat sat on the mat", "a dog sat on a mat", "quantum field theory", "the cat sat on the mat"}
	r, err := p.Embed(s.context(t), model.EmbedRequest{Model: s.EmbedModel, Texts: texts})
	if err != nil {
		t.Fatalf("Embed: %v", err)
	}
	if len(r.Vectors) != len(texts) {
		t.Fatalf("%d vectors for %d texts", len(r.Vectors), len(texts))
	}
	for i, v := range r.Vectors {
		if len(v) == 0 || len(v) != len(r.Vectors[0]) {
			t.Fatalf("vector %d has %d numbers, the first %d", i, len(v), len(r.Vectors[0]))
		}
	}
	if same, near, far := cosine(r.Vectors[0], r.Vectors[3]), cosine(r.Vectors[0], r.Vectors[1]), cosine(r.Vectors[0], r.Vectors[2]); same < 0.999 || near <= far {
		t.Errorf("similarity: of a text with itself %.3f, with a like one %.3f, with an unlike one %.3f", same, near, far)
	}
	_, err = p.Embed(s.context(t), model.EmbedRequest{Model: s.EmbedModel})
	s.wantKind(t, err, model.KindBadRequest)
	if s.UnknownModel != "" {
		_, err = p.Embed(s.context(t), model.EmbedRequest{Model: s.UnknownModel, Texts: texts})
		s.wantKind(t, err, model.KindUnknownModel)
	}
}

func cosine(a, b []float32) float64 {
	var ab, aa, bb float64
	for i := range a {
		ab += float64(a[i]) * float64(b[i])
		aa += float64(a[i]) * float64(a[i])
		bb += float64(b[i]) * float64(b[i])
	}
	return ab / math.Sqrt(aa*bb)
}

func (s suite) failures(t testkit.T) {
	for _, f := range s.Failures {
		t.Run(f.Name, func(t testkit.T) {
			_, err := s.fail(t, s.New(t), s.request(f.Say))
			s.wantKind(t, err, f.Kind)
			var e *model.Error
			if errors.As(err, &e) && e.RetryAfter() != f.RetryAfter {
				t.Errorf("retry after %s, want %s", e.RetryAfter(), f.RetryAfter)
			}
		})
	}
}

func (s suite) broken(t testkit.T) {
	for _, f := range s.Broken {
		t.Run(f.Name, func(t testkit.T) {
			r, err := s.fail(t, s.New(t), s.request(f.Say))
			s.wantKind(t, err, f.Kind)
			if r.Message.Text() == "" {
				t.Error("the text that had come is lost")
			}
			if len(r.Message.ToolCalls()) > 0 {
				t.Errorf("a tool call that was cut off is handed on: %+v", r.Message.ToolCalls())
			}
			if r.Finish != "" {
				t.Errorf("finish = %q of an answer that broke off", r.Finish)
			}
		})
	}
}
