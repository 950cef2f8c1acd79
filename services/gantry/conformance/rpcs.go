package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/figures"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
)

const (
	// probeTimeout bounds one probe; an RPC that is still at work then is implemented.
	probeTimeout = 3 * time.Second
	// probes run at once: many only wait.
	probes = 8
)

// compareRPCs calls each RPC of each process once and compares which are implemented with the list in file.
func compareRPCs(ctx context.Context, file string, cluster *procs.Cluster, write bool, report *figures.Report) error {
	found, err := probeAll(ctx, cluster)
	if err != nil {
		return err
	}
	implemented, nameless := 0, 0
	for _, line := range found {
		fmt.Println("conformance: rpc", line)
		if strings.HasSuffix(line, " implemented") {
			implemented++
		}
		if strings.HasSuffix(line, " UNIMPLEMENTED") {
			nameless++
		}
	}
	text := strings.Join(found, "\n") + "\n"
	if write {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("%w (--write makes it)", err)
	}
	want := strings.Split(strings.TrimSpace(string(committed)), "\n")
	different := 0
	for _, line := range found {
		if !slices.Contains(want, line) {
			different++
			fmt.Printf("conformance: not in rpcs.txt: %s\n", line)
		}
	}
	for _, line := range want {
		if !slices.Contains(found, line) {
			different++
			fmt.Printf("conformance: only in rpcs.txt: %s\n", line)
		}
	}
	report.Tell("rpcs", len(found))
	report.Tell("rpcs_implemented", implemented)
	report.AtMost("rpcs_unlike_the_list", float64(different), 0)
	report.AtMost("rpcs_unimplemented_without_reason", float64(nameless), 0)
	return nil
}

// probeAll returns a sorted line for each RPC of each process.
func probeAll(ctx context.Context, cluster *procs.Cluster) ([]string, error) {
	var (
		lines []string
		errs  []error
		mu    sync.Mutex
		wait  sync.WaitGroup
	)
	slots := make(chan struct{}, probes)
	seen := map[protoreflect.FullName]bool{}
	for _, process := range procs.Names {
		conn := cluster.Conn(process)
		services, err := served(ctx, conn)
		if err != nil {
			return nil, fmt.Errorf("reflection of %s: %w", process, err)
		}
		for _, service := range services {
			seen[service.FullName()] = true
			methods := service.Methods()
			for i := range methods.Len() {
				method := methods.Get(i)
				wait.Go(func() {
					slots <- struct{}{}
					defer func() { <-slots }()
					state, err := probe(ctx, conn, method)
					mu.Lock()
					defer mu.Unlock()
					lines = append(lines, fmt.Sprintf("%-12s %s/%s %s", process, service.FullName(), method.Name(), state))
					errs = append(errs, err)
				})
			}
		}
	}
	wait.Wait()
	lines = append(lines, called(seen)...)
	slices.Sort(lines)
	return lines, errors.Join(errs...)
}

// called lists the RPCs of contracts that no process serves: Gantry calls them, and others implement them.
func called(served map[protoreflect.FullName]bool) []string {
	var lines []string
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			if !strings.HasPrefix(string(service.FullName()), "gantry.") || served[service.FullName()] {
				continue
			}
			for j := range service.Methods().Len() {
				lines = append(lines, fmt.Sprintf("%-12s %s/%s called by Gantry, served by others", "-", service.FullName(), service.Methods().Get(j).Name()))
			}
		}
		return true
	})
	return lines
}

// served lists Gantry's services of a server, by reflection.
func served(ctx context.Context, conn grpc.ClientConnInterface) ([]protoreflect.ServiceDescriptor, error) {
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}})
	if err != nil {
		return nil, err
	}
	got, err := stream.Recv()
	if err != nil {
		return nil, err
	}
	var out []protoreflect.ServiceDescriptor
	for _, s := range got.GetListServicesResponse().GetService() {
		if !strings.HasPrefix(s.GetName(), "gantry.") {
			continue
		}
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(s.GetName()))
		if err != nil {
			return nil, err
		}
		out = append(out, d.(protoreflect.ServiceDescriptor))
	}
	return out, stream.CloseSend()
}

// probe calls an RPC with the smallest valid request, as a user of its own, and says what it is: "implemented", or
// "UNIMPLEMENTED" with the reason. A request that does not pass validation tells nothing and is an error: minimal must learn it.
func probe(ctx context.Context, conn grpc.ClientConnInterface, method protoreflect.MethodDescriptor) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	ctx = identity.NewContext(ctx, identity.Identity{
		Tenant: identity.DefaultTenant, Agent: "reviewer", User: "probe", Session: "probe-" + string(method.Name()), ScopeUnset: true,
	})
	name := "/" + string(method.Parent().FullName()) + "/" + string(method.Name())
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, name)
	if err == nil {
		err = errors.Join(ignoreEnd(stream.SendMsg(minimal(method.Input()))), ignoreEnd(stream.CloseSend()))
	}
	if err == nil {
		err = stream.RecvMsg(dynamicpb.NewMessage(method.Output()))
	}
	switch {
	case errors.Is(err, errdefs.ErrUnimplemented):
		return strings.TrimSpace("UNIMPLEMENTED " + errdefs.ReasonOf(err)), nil
	case errdefs.ReasonOf(err) == "REQUEST_INVALID":
		return "unknown", fmt.Errorf("the probe of %s is not valid: %w", name, err)
	case errors.Is(err, errdefs.ErrUnavailable):
		return "unknown", fmt.Errorf("%s: %w", name, err)
	}
	return "implemented", nil
}

// ignoreEnd passes over the end of a stream that the server has answered already: RecvMsg says how.
func ignoreEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
