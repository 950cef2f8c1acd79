// Command printproto writes the third-party .proto files that Gantry's protos import, printed from the descriptors
// linked into the Go packages themselves. Generation thus needs no schema registry and no network, and the files always
// equal the code that is linked.
//
// Usage: printproto OUT_DIR
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2/options"
	"github.com/jhump/protoreflect/v2/protoprint"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/protobuf/reflect/protoreflect"
)

var files = []protoreflect.FileDescriptor{
	annotations.File_google_api_http_proto,
	annotations.File_google_api_annotations_proto,
	httpbody.File_google_api_httpbody_proto,
	validate.File_buf_validate_validate_proto,
	options.File_protoc_gen_openapiv2_options_annotations_proto,
	options.File_protoc_gen_openapiv2_options_openapiv2_proto,
}

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: printproto OUT_DIR")
		os.Exit(2)
	}
	for _, fd := range files {
		if err := write(os.Args[1], fd); err != nil {
			fmt.Fprintf(os.Stderr, "printproto: %s: %v\n", fd.Path(), err)
			os.Exit(1)
		}
	}
}

func write(dir string, fd protoreflect.FileDescriptor) error {
	printer := protoprint.Printer{}
	text, err := printer.PrintProtoToString(fd)
	if err != nil {
		return err
	}
	name := filepath.Join(dir, filepath.FromSlash(fd.Path()))
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o644)
}
