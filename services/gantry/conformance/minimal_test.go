package main

import (
	"strings"
	"testing"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// TestMinimalRequestsAreValid covers each RPC of each service: a request that is refused by validation would hide whether the
// RPC is implemented.
func TestMinimalRequestsAreValid(t *testing.T) {
	validator, err := protovalidate.New()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(file.Package()), "gantry.") {
			return true
		}
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				checked++
				m := minimal(methods.Get(j).Input())
				if err := validator.Validate(m); err != nil {
					t.Errorf("%s: %v: %v", methods.Get(j).FullName(), m, err)
				}
			}
		}
		return true
	})
	if checked < 80 {
		t.Errorf("only %d RPCs are known", checked)
	}
}
