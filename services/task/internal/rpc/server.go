// Package rpc is the gRPC face of the task service: it reads requests, asks the engine, and makes answers. What may happen is decided in package task.
package rpc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/task/internal/poll"
	"github.com/gantry-agents/gantry/services/task/internal/task"
)

// maxPartBytes bounds input, result, waiting and answers as messages.
const maxPartBytes = 64 << 10

// Server serves gantry.task.v1.TaskService.
type Server struct {
	taskv1.UnimplementedTaskServiceServer
	engine *task.Engine
	hub    *poll.Hub
}

// New returns a server on an engine.
func New(engine *task.Engine, hub *poll.Hub) *Server { return &Server{engine: engine, hub: hub} }

// Register adds the service to a gRPC server.
func (s *Server) Register(r grpc.ServiceRegistrar) { taskv1.RegisterTaskServiceServer(r, s) }

// caller is who calls, with what follows from it.
type caller struct {
	identity identity.Identity
	viewer   task.Viewer
	bucket   string
	grant    access.Grant
}

// client reads who calls an RPC for clients. Without an identity whose data could be kept it is IDENTITY_REQUIRED.
func client(ctx context.Context) (caller, error) {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return caller{}, errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, identity.ReasonRequired, "the call has no identity")
	}
	owner, err := task.OwnerKey(id)
	if err != nil {
		return caller{}, err
	}
	bucket, err := identity.BucketFromContext(ctx)
	if err != nil {
		return caller{}, err
	}
	grant, _ := access.FromContext(ctx)
	return caller{identity: id, viewer: task.Viewer{Tenant: id.Tenant, Owner: owner}, bucket: bucket.Key(), grant: grant}, nil
}

// worker reads who calls an RPC for workers: the tenant counts. A capability of a run reaches tasks of its own user alone.
func worker(ctx context.Context) (task.Viewer, identity.Identity, error) {
	id, ok := identity.FromContext(ctx)
	if !ok {
		return task.Viewer{}, id, errdefs.New(errdefs.ErrInvalidArgument, errdefs.DomainCommon, identity.ReasonRequired, "the call has no identity")
	}
	v := task.Viewer{Tenant: id.Tenant}
	if grant, ok := access.FromContext(ctx); ok && ofRun(grant) {
		v.User, v.ByUser = id.User, true
	}
	return v, id, nil
}

// ofRun says whether a grant is that of one run.
func ofRun(g access.Grant) bool { return g.Source == access.SourceCapability && g.Run != "" }

// toGrant is what is kept of a grant with a task.
func toGrant(g access.Grant) task.Grant {
	return task.Grant{Verbs: g.Verbs, Prefixes: g.PathPrefixes, Limited: g.PathPrefixes != nil}
}

// callOf is what makes a call happen once: its effect id and the hash of method and request.
func callOf(id identity.Identity, method string, request proto.Message) task.Call {
	h := sha256.New()
	h.Write([]byte(method + "\x00"))
	h.Write(wire(request))
	return task.Call{Effect: id.Effect, Hash: h.Sum(nil)}
}

// bounded checks the size of a message that is stored.
func bounded(field string, m proto.Message) error {
	if size := proto.Size(m); size > maxPartBytes {
		return task.Errorf(errdefs.ErrInvalidArgument, task.ReasonTooLarge, "%s has %d bytes, at most %d are allowed", field, size, maxPartBytes).
			With("field", field).With("limit_bytes", strconv.Itoa(maxPartBytes)).With("size_bytes", strconv.Itoa(size))
	}
	return nil
}

func invalidField(field, problem string) error {
	return &errdefs.Error{
		Class: errdefs.ErrInvalidArgument, Message: field + ": " + problem, Violations: []errdefs.Violation{{Field: field, Description: problem}},
	}
}

var errToken = errors.New("not a token of this server")

// Tokens are opaque to clients: base64 of what is needed to go on. They give no rights, so they need no signature.
func encodeToken(parts ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, "\x00")))
}

// decodeToken reads a token of so many parts.
func decodeToken(token string, parts int) ([]string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return nil, errToken
	}
	split := strings.Split(string(raw), "\x00")
	if len(split) != parts {
		return nil, errToken
	}
	return split, nil
}

func tokenInvalid(field string) error {
	return task.Errorf(errdefs.ErrInvalidArgument, task.ReasonTokenInvalid, "%s is not one that this server gave for this request", field).With("field", field)
}

func encodeCursor(c task.Cursor) string {
	return encodeToken("c1", c.Store, strconv.FormatInt(c.At, 36))
}

func decodeCursor(token string) (task.Cursor, error) {
	if token == "" {
		return task.Cursor{}, nil
	}
	parts, err := decodeToken(token, 3)
	if err != nil || parts[0] != "c1" || parts[1] == "" {
		return task.Cursor{}, tokenInvalid("cursor")
	}
	at, err := strconv.ParseInt(parts[2], 36, 64)
	if err != nil {
		return task.Cursor{}, tokenInvalid("cursor")
	}
	return task.Cursor{Store: parts[1], At: at}, nil
}

// encodePage makes a page token that is bound to the filter.
func encodePage(filter proto.Message, before int64) string {
	return encodeToken("p1", filterHash(filter), strconv.FormatInt(before, 36))
}

func decodePage(token string, filter proto.Message) (before int64, err error) {
	if token == "" {
		return 0, nil
	}
	parts, err := decodeToken(token, 3)
	if err != nil || parts[0] != "p1" || parts[1] != filterHash(filter) {
		return 0, tokenInvalid("page_token")
	}
	if before, err = strconv.ParseInt(parts[2], 36, 64); err != nil || before <= 0 {
		return 0, tokenInvalid("page_token")
	}
	return before, nil
}

func filterHash(filter proto.Message) string {
	sum := sha256.Sum256(wire(filter))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}
