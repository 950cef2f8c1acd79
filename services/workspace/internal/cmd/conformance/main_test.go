package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestForbiddenSkips(t *testing.T) {
	r := row{skips: []string{"plain files"}}
	got := r.forbidden([]string{"TestStore/a: this store has no plain files", "TestStore/b: postgres: it is not installed"})
	if want := []string{"TestStore/b: postgres: it is not installed"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// TestEveryBackendHasARow holds the table to the tree: each backend's package is named by a row.
func TestEveryBackendHasARow(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for _, r := range rows {
		for _, tt := range r.tests {
			if _, err := regexp.Compile(tt.run); err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
			named[tt.pkg] = true
		}
	}
	suite := regexp.MustCompile(`\bstoretest\.Run\(`)
	found, err := filepath.Glob(filepath.Join(root, "services/workspace/internal/backend/*/*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := []string{"internal/backend/manifest"} // the log under redis and object, which have rows
	for _, path := range found {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pkg := "internal/backend/" + filepath.Base(filepath.Dir(path))
		if suite.Match(text) && !named[pkg] && !slices.Contains(elsewhere, pkg) && !strings.Contains(pkg, "containertest") {
			t.Errorf("%s runs the suite of its port and has no row", pkg)
		}
	}
}
