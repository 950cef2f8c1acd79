package errgrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
)

// overTheWire does what gRPC does: it keeps the status and nothing else.
func overTheWire(err error) error {
	return status.FromProto(status.Convert(errgrpc.ToStatus(err)).Proto()).Err()
}

func TestRoundTripOfEveryClass(t *testing.T) {
	for _, class := range errdefs.Classes() {
		t.Run(class.Error(), func(t *testing.T) {
			sent := errdefs.New(class, "gantry.filesystem.v1", "SOME_REASON", "something about %q", "Ü.md").
				With("path", "Ü.md").With("limit", "7").RetryIn(1500 * time.Millisecond)
			sent.Violations = []errdefs.Violation{{Field: "path", Description: "too long"}}
			got := errgrpc.FromStatus(overTheWire(fmt.Errorf("handler: %w", sent)))

			if !errors.Is(got, class) {
				t.Errorf("errors.Is(got, %v) = false", class)
			}
			for _, other := range errdefs.Classes() {
				if other != class && errors.Is(got, other) {
					t.Errorf("errors.Is(got, %v) = true for an error of class %v", other, class)
				}
			}
			if errdefs.ClassOf(got) != class || errdefs.ReasonOf(got) != "SOME_REASON" {
				t.Errorf("class %v, reason %q", errdefs.ClassOf(got), errdefs.ReasonOf(got))
			}
			var typed *errdefs.Error
			if !errors.As(got, &typed) {
				t.Fatal("errors.As finds no *errdefs.Error")
			}
			type public struct {
				Domain, Message string
				Meta            map[string]string
				RetryAfter      time.Duration
				Violations      []errdefs.Violation
			}
			want := public{sent.Domain, sent.Message, sent.Meta, sent.RetryAfter, sent.Violations}
			if diff := cmp.Diff(want, public{typed.Domain, typed.Message, typed.Meta, typed.RetryAfter, typed.Violations}); diff != "" {
				t.Errorf("public facts differ (-sent +received):\n%s", diff)
			}
			// A second hop must change nothing: services pass errors of other services on.
			again := errgrpc.FromStatus(overTheWire(got))
			if errdefs.ClassOf(again) != class || errdefs.ReasonOf(again) != "SOME_REASON" {
				t.Errorf("second hop: class %v, reason %q", errdefs.ClassOf(again), errdefs.ReasonOf(again))
			}
			if status.Code(got) != errgrpc.CodeOf(sent) {
				t.Errorf("status.Code of the received error = %v, want %v", status.Code(got), errgrpc.CodeOf(sent))
			}
		})
	}
}

func TestPrivateTextNeverCrosses(t *testing.T) {
	const secret = "pq: relation files at 10.1.2.3:5432"
	cause := errors.New(secret)
	tests := map[string]struct {
		err  error
		code codes.Code
	}{
		"unknown":                     {cause, codes.Internal},
		"typed with cause":            {errdefs.New(errdefs.ErrUnavailable, "d", "STORE", "store is not reachable: %w", cause), codes.Unavailable},
		"typed, wrapped by context":   {fmt.Errorf("%s: %w", secret, errdefs.New(errdefs.ErrNotFound, "d", "R", "not there")), codes.NotFound},
		"sentinel, wrapped":           {fmt.Errorf("%s: %w", secret, errdefs.ErrAborted), codes.Aborted},
		"context":                     {fmt.Errorf("%s: %w", secret, context.Canceled), codes.Canceled},
		"deadline":                    {fmt.Errorf("%s: %w", secret, context.DeadlineExceeded), codes.DeadlineExceeded},
		"status, wrapped":             {fmt.Errorf("dial: %w", status.Error(codes.NotFound, secret)), codes.NotFound},
		"status of a fault":           {status.Error(codes.Unknown, secret), codes.Internal},
		"transport of the next hop":   {errgrpc.FromStatus(status.Error(codes.Unavailable, secret)), codes.Unavailable},
		"fault of the next hop":       {errgrpc.FromStatus(status.Error(codes.Internal, secret)), codes.Internal},
		"unavailable from a library":  {status.Error(codes.Unavailable, secret), codes.Unavailable},
		"two causes, one of them raw": {errdefs.New(errdefs.ErrInternal, "d", "R", "x: %w %w", cause, io.EOF), codes.Internal},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			out := errgrpc.ToStatus(tt.err)
			wire := status.Convert(out).Proto()
			if strings.Contains(wire.String(), "10.1.2.3") {
				t.Errorf("private text crosses the wire: %v", wire)
			}
			if codes.Code(wire.GetCode()) != tt.code {
				t.Errorf("code = %v, want %v", codes.Code(wire.GetCode()), tt.code)
			}
			if !errors.Is(out, tt.err) {
				t.Error("the log cannot see the original error any more")
			}
		})
	}
}

func TestDetailsStaySmall(t *testing.T) {
	long := errdefs.New(errdefs.ErrInvalidArgument, "gantry.filesystem.v1", "PATH_TOO_LONG", "%s", strings.Repeat("ü", 5000))
	for i := range 100 {
		long = long.With(fmt.Sprintf("key-%02d", i), strings.Repeat("v", 1000))
		long.Violations = append(long.Violations, errdefs.Violation{Field: strings.Repeat("f", 400), Description: strings.Repeat("d", 400)})
	}
	s := status.Convert(errgrpc.ToStatus(long))
	if size := proto.Size(s.Proto()); size > errgrpc.MaxStatusBytes {
		t.Errorf("status has %d bytes, want at most %d", size, errgrpc.MaxStatusBytes)
	}
	got := errgrpc.FromStatus(s.Err())
	var typed *errdefs.Error
	if !errors.As(got, &typed) || typed.Reason != "PATH_TOO_LONG" {
		t.Fatalf("the reason is lost: %v", got)
	}
	if typed.Meta["truncated"] != "true" {
		t.Error("facts were left out without saying so")
	}
	if typed.Meta["key-00"] == "" {
		t.Error("no fact survived")
	}
}

func TestTextThatIsNotUTF8LosesNothingElse(t *testing.T) {
	err := errdefs.New(errdefs.ErrNotFound, "d", "R", "not there: \xff").With("path", "a\xff")
	got := errgrpc.FromStatus(overTheWire(err))
	var typed *errdefs.Error
	if !errors.As(got, &typed) || !errors.Is(got, errdefs.ErrNotFound) || typed.Reason != "R" || typed.Meta["path"] != "a\uFFFD" {
		t.Errorf("got %+v", typed)
	}
}

func TestPassThrough(t *testing.T) {
	if errgrpc.ToStatus(nil) != nil || errgrpc.FromStatus(nil) != nil {
		t.Error("nil must stay nil")
	}
	if err := errgrpc.FromStatus(io.EOF); err != io.EOF {
		t.Errorf("io.EOF ends streams and must stay io.EOF, got %v", err)
	}
	typed := errdefs.New(errdefs.ErrNotFound, "d", "R", "x")
	if err := errgrpc.FromStatus(typed); err != error(typed) {
		t.Errorf("a typed error changed: %v", err)
	}
	once := errgrpc.ToStatus(typed)
	if twice := errgrpc.ToStatus(once); twice != once {
		t.Error("ToStatus of a status error must change nothing")
	}
	generated := status.Error(codes.Unimplemented, "method Foo not implemented")
	out := errgrpc.ToStatus(generated)
	if got := status.Convert(out).Message(); got != "method Foo not implemented" {
		t.Errorf("gRPC's own message is lost: %q", got)
	}
	got := errgrpc.FromStatus(overTheWire(out))
	if !errors.Is(got, errdefs.ErrUnimplemented) || errdefs.ReasonOf(got) != errdefs.ReasonUnimplemented {
		t.Errorf("a method that is not implemented has class %v, reason %q", errdefs.ClassOf(got), errdefs.ReasonOf(got))
	}
}
