package access

import (
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	commonv1 "github.com/gantry-agents/gantry/gen/gantry/common/v1"
)

// Requirement is what a method needs of its caller.
type Requirement struct {
	// Audience says who may call at all.
	Audience commonv1.Audience
	// Verbs must all be held.
	Verbs []string
}

// methods looks requirements up and remembers them.
type methods struct {
	files    *protoregistry.Files
	declared sync.Map // full method name -> Requirement; holds only methods that exist, so it is bounded
}

// Undeclared returns the full names of the methods that everyone is refused, because they do not declare who may call
// them. A server does not start with such a method: better that its author sees it than its callers.
func (a *Authenticator) Undeclared(services map[string]grpc.ServiceInfo) []string {
	var names []string
	for service, info := range services {
		for _, method := range info.Methods {
			name := "/" + service + "/" + method.Name
			if _, err := a.methods.lookup(name); err != nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// standardServices are gRPC's own: they carry no option of ours and are public.
var standardServices = []string{"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}

// lookup returns the requirement of a method such as "/gantry.filesystem.v1.FilesystemService/Read". Without a declared
// audience it is PERMISSION_DENIED with reason ACCESS_UNDECLARED.
func (m *methods) lookup(method string) (Requirement, error) {
	if known, ok := m.declared.Load(method); ok {
		return known.(Requirement), nil
	}
	service, name, _ := strings.Cut(strings.TrimPrefix(method, "/"), "/")
	for _, standard := range standardServices {
		if service == standard {
			return Requirement{Audience: commonv1.Audience_AUDIENCE_PUBLIC}, nil
		}
	}
	undeclared := denied(ReasonUndeclared, "the method does not declare who may call it").With("method", method)
	descriptor, err := m.files.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil {
		return Requirement{}, undeclared
	}
	options := descriptor.Options()
	if options == nil || !proto.HasExtension(options, commonv1.E_Access) {
		return Requirement{}, undeclared
	}
	declared, ok := proto.GetExtension(options, commonv1.E_Access).(*commonv1.Access)
	if !ok || declared.GetAudience() == commonv1.Audience_AUDIENCE_UNSPECIFIED {
		return Requirement{}, undeclared
	}
	r := Requirement{Audience: declared.GetAudience(), Verbs: declared.GetVerbs()}
	m.declared.Store(method, r)
	return r, nil
}
