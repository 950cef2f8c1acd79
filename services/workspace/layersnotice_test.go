package workspace_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
	"github.com/gantry-agents/gantry/services/workspace/workspacetest"
)

// bent is a connection whose unary calls go wrong in one way.
type bent struct {
	grpc.ClientConnInterface
	context func(context.Context) context.Context
	drop    string // calls of this method are answered without being made
	after   func(ctx context.Context, method string, reply any)
	instead func(ctx context.Context, method string, request, reply any) bool // true: answered
}

func (b bent) Invoke(ctx context.Context, method string, request, reply any, opts ...grpc.CallOption) error {
	if b.drop != "" && strings.HasSuffix(method, "/"+b.drop) {
		return nil
	}
	if b.context != nil {
		ctx = b.context(ctx)
	}
	if b.instead != nil && b.instead(ctx, method, request, reply) {
		return nil
	}
	err := b.ClientConnInterface.Invoke(ctx, method, request, reply, opts...)
	if err == nil && b.after != nil {
		b.after(ctx, method, reply)
	}
	return err
}

// The cases about layers fail for a service that breaks one of their promises.
func TestLayersSuiteNotices(t *testing.T) {
	conn := serve(t, settings(t, workspace.BackendSQLite), access.Options{})
	for name, b := range map[string]bent{
		"deletes nothing":   {drop: "Delete"},
		"ignores the scope": {context: change(func(id *identity.Identity) { id.Scope = identity.ScopeUser })},
		"ignores the user":  {context: change(func(id *identity.Identity) { id.User = "everybody" })},
		"knows nobody":      {context: change(func(id *identity.Identity) { id.User = max(id.User, "nobody") })},
		"names a wrong layer": {after: func(_ context.Context, _ string, reply any) {
			if page, ok := reply.(*filesystemv1.GlobResponse); ok {
				for _, e := range page.GetEntries() {
					e.Layer = filesystemv1.Layer_LAYER_BUCKET
				}
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b.ClientConnInterface = conn
			n := 0
			noticed(t, func(t testkit.T) {
				workspacetest.RunLayers(t, func(testkit.T) workspacetest.Layers {
					n++
					return workspacetest.Layers{Conn: b, Agent: name + strings.Repeat("i", n)}
				})
			})
		})
	}
}

// The cases about replicas fail where one of them answers from memory.
func TestReplicasSuiteNotices(t *testing.T) {
	cfg := settings(t, workspace.BackendSQLite)
	conn := serve(t, cfg, access.Options{})
	for name, method := range map[string]string{"a cache of stats": "/Stat", "a cache of definitions": "/GetDefinition", "a cache of listings": "/List"} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			known := map[string]proto.Message{}
			key := func(ctx context.Context, method string, request any) string {
				raw, _ := proto.Marshal(request.(proto.Message))
				id, _ := identity.FromContext(ctx)
				return method + id.Agent + "/" + id.User + string(raw)
			}
			late := bent{ClientConnInterface: conn, instead: func(ctx context.Context, called string, request, reply any) bool {
				if !strings.HasSuffix(called, method) {
					return false
				}
				mu.Lock()
				defer mu.Unlock()
				k := key(ctx, called, request)
				if m, ok := known[k]; ok {
					proto.Merge(reply.(proto.Message), m)
					return true
				}
				if conn.Invoke(ctx, called, request, reply) != nil {
					return false
				}
				known[k] = proto.Clone(reply.(proto.Message))
				return true
			}}
			noticed(t, func(t testkit.T) {
				workspacetest.RunReplicas(t, func(testkit.T) []grpc.ClientConnInterface { return []grpc.ClientConnInterface{conn, late, conn} })
			})
		})
	}
}

// noticed fails unless a suite finds fault.
func noticed(t *testing.T, suite func(testkit.T)) {
	t.Helper()
	failures := testkit.Failures(suite)
	if len(failures) == 0 {
		t.Error("the suite notices nothing")
		return
	}
	t.Logf("%d findings, the first: %s", len(failures), failures[0])
}
