package rpc

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"

	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	"github.com/gantry-agents/gantry/services/memory/internal/memory"
)

// TestReasons checks that every reason that the logic gives is a value of the proto's enum.
func TestReasons(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../memory/errors.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		reason, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		if _, known := memoryv1.ErrorReason_value["ERROR_REASON_"+reason]; !known {
			t.Errorf("%s = %q is no value of the enum", spec.Names[0].Name, reason)
		}
		checked++
		return true
	})
	if checked < 15 {
		t.Errorf("only %d reasons were found", checked)
	}
	if want := string(memoryv1.File_gantry_memory_v1_error_reason_proto.Package()); memory.Domain != want {
		t.Errorf("the domain is %q, want %q", memory.Domain, want)
	}
}
