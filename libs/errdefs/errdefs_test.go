package errdefs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

func TestNewKeepsTheCauseAndHidesItsText(t *testing.T) {
	cause := errors.New("pq: password authentication failed for user gantry")
	tests := map[string]struct {
		err     *errdefs.Error
		message string
		wraps   error
	}{
		"no cause":            {errdefs.New(errdefs.ErrNotFound, "d", "R", "file %q is not there", "a.md"), `file "a.md" is not there`, nil},
		"cause at the end":    {errdefs.New(errdefs.ErrUnavailable, "d", "R", "store is not reachable: %w", cause), "store is not reachable", cause},
		"cause in brackets":   {errdefs.New(errdefs.ErrUnavailable, "d", "R", "store %s failed (%w", "x", cause), "store x failed", cause},
		"two causes":          {errdefs.New(errdefs.ErrInternal, "d", "R", "both: %w, %w", cause, io.EOF), "both", io.EOF},
		"wrap":                {errdefs.Wrap(cause, errdefs.ErrInternal, "d", "R", "store failed"), "store failed", cause},
		"error under %v, too": {errdefs.New(errdefs.ErrInternal, "d", "R", "failed: %v: %w", io.EOF, cause), "failed", cause},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.err.Message != tt.message {
				t.Errorf("Message = %q, want %q", tt.err.Message, tt.message)
			}
			if tt.wraps != nil && !errors.Is(tt.err, tt.wraps) {
				t.Errorf("errors.Is(err, cause) = false")
			}
			if tt.wraps != nil && !strings.Contains(tt.err.Error(), tt.wraps.Error()) {
				t.Errorf("Error() = %q lacks the cause, which the log needs", tt.err.Error())
			}
		})
	}
}

func TestClassOf(t *testing.T) {
	tests := map[string]struct {
		err  error
		want error
	}{
		"nil":               {nil, nil},
		"typed":             {errdefs.New(errdefs.ErrAborted, "d", "R", "x"), errdefs.ErrAborted},
		"typed and wrapped": {fmt.Errorf("open: %w", errdefs.New(errdefs.ErrDataLoss, "d", "R", "x")), errdefs.ErrDataLoss},
		"bare sentinel":     {fmt.Errorf("x: %w", errdefs.ErrOutOfRange), errdefs.ErrOutOfRange},
		"context cancelled": {fmt.Errorf("x: %w", context.Canceled), errdefs.ErrCanceled},
		"deadline":          {context.DeadlineExceeded, errdefs.ErrDeadlineExceeded},
		"unknown":           {io.EOF, errdefs.ErrInternal},
		"made-up class":     {errdefs.New(io.EOF, "d", "R", "x"), errdefs.ErrInternal},
		"outermost wins": {errdefs.Wrap(errdefs.New(errdefs.ErrNotFound, "d", "IN", "x"), errdefs.ErrFailedPrecondition, "d", "OUT", "y"),
			errdefs.ErrFailedPrecondition},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := errdefs.ClassOf(tt.err); got != tt.want {
				t.Errorf("ClassOf = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestReasonOf(t *testing.T) {
	inner := errdefs.New(errdefs.ErrNotFound, "d", "INNER", "x")
	tests := map[string]struct {
		err  error
		want string
	}{
		"nil":                      {nil, ""},
		"untyped":                  {io.EOF, ""},
		"wrapped":                  {fmt.Errorf("open: %w", inner), "INNER"},
		"outermost with a reason":  {errdefs.Wrap(inner, errdefs.ErrAborted, "d", "OUTER", "y"), "OUTER"},
		"skips one without reason": {errdefs.Wrap(inner, errdefs.ErrAborted, "d", "", "y"), "INNER"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := errdefs.ReasonOf(tt.err); got != tt.want {
				t.Errorf("ReasonOf = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestIs(t *testing.T) {
	err := error(errdefs.New(errdefs.ErrNotFound, "d", "R", "x"))
	if !errors.Is(err, errdefs.ErrNotFound) || errors.Is(err, errdefs.ErrAborted) {
		t.Error("an error must be of its own class and of no other")
	}
	if !errors.Is(err, errdefs.New(errdefs.ErrNotFound, "d", "R", "another text")) {
		t.Error("same class, domain and reason must be the same error")
	}
	if errors.Is(err, errdefs.New(errdefs.ErrNotFound, "d", "OTHER", "x")) {
		t.Error("another reason must be another error")
	}
	canceled, late := errdefs.New(errdefs.ErrCanceled, "", "", "x"), errdefs.New(errdefs.ErrDeadlineExceeded, "", "", "x")
	if !errors.Is(canceled, context.Canceled) || !errors.Is(late, context.DeadlineExceeded) {
		t.Error("an ended context of another process must look like one of ours")
	}
	if errors.Is(canceled, context.DeadlineExceeded) || errors.Is(late, context.Canceled) || errors.Is(err, context.Canceled) {
		t.Error("an error looks like the end of a context that it is not")
	}
}

func TestWithAndRetryInLeaveTheReceiverAlone(t *testing.T) {
	base := errdefs.New(errdefs.ErrResourceExhausted, "d", "R", "x").With("a", "1")
	more := base.With("b", "2").RetryIn(3 * time.Second)
	if len(base.Meta) != 1 || base.RetryAfter != 0 {
		t.Errorf("receiver changed: %+v", base)
	}
	if more.Meta["a"] != "1" || more.Meta["b"] != "2" || more.RetryAfter != 3*time.Second {
		t.Errorf("copy lacks facts: %+v", more)
	}
	if got := base.RetryIn(-time.Second).RetryAfter; got != 0 {
		t.Errorf("a negative time to retry = %v, want 0", got)
	}
}

func TestClassesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, class := range errdefs.Classes() {
		if seen[class.Error()] {
			t.Errorf("class %q is listed twice", class)
		}
		seen[class.Error()] = true
	}
	if len(seen) != 15 {
		t.Errorf("there are %d classes, want 15", len(seen))
	}
}
