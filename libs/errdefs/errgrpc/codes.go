// Package errgrpc carries errors of package errdefs across gRPC, both ways.
//
// A server turns errors into statuses in one place, the innermost interceptor, with [ToStatus]; a client turns statuses
// back in one place with [FromStatus]. [errors.Is] with a class, errdefs.ReasonOf, the metadata and the time to retry
// hold on both sides.
package errgrpc

import (
	"google.golang.org/grpc/codes"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// byClass and byCode are the two directions of one table.
var byClass = map[error]codes.Code{
	errdefs.ErrInvalidArgument:    codes.InvalidArgument,
	errdefs.ErrNotFound:           codes.NotFound,
	errdefs.ErrAlreadyExists:      codes.AlreadyExists,
	errdefs.ErrPermissionDenied:   codes.PermissionDenied,
	errdefs.ErrUnauthenticated:    codes.Unauthenticated,
	errdefs.ErrFailedPrecondition: codes.FailedPrecondition,
	errdefs.ErrAborted:            codes.Aborted,
	errdefs.ErrOutOfRange:         codes.OutOfRange,
	errdefs.ErrResourceExhausted:  codes.ResourceExhausted,
	errdefs.ErrUnimplemented:      codes.Unimplemented,
	errdefs.ErrUnavailable:        codes.Unavailable,
	errdefs.ErrDeadlineExceeded:   codes.DeadlineExceeded,
	errdefs.ErrCanceled:           codes.Canceled,
	errdefs.ErrDataLoss:           codes.DataLoss,
	errdefs.ErrInternal:           codes.Internal,
}

var byCode = func() map[codes.Code]error {
	m := make(map[codes.Code]error, len(byClass))
	for class, code := range byClass {
		m[code] = class
	}
	return m
}()

// CodeOf returns the gRPC code of the class of err, and codes.OK for nil.
func CodeOf(err error) codes.Code {
	if err == nil {
		return codes.OK
	}
	return byClass[errdefs.ClassOf(err)]
}

// classOf returns the class of a code. UNKNOWN and codes that do not exist are faults: ErrInternal.
func classOf(code codes.Code) error {
	if class, ok := byCode[code]; ok {
		return class
	}
	return errdefs.ErrInternal
}
