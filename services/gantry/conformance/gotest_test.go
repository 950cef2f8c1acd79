package main

import (
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	tests := map[string]struct {
		events []string
		want   counts
		output string
	}{
		"leaves only": {[]string{
			`{"Action":"run","Test":"TestStore"}`, `{"Action":"pass","Test":"TestStore/a"}`, `{"Action":"pass","Test":"TestStore/b/c"}`,
			`{"Action":"pass","Test":"TestStore/b"}`, `{"Action":"pass","Test":"TestStore"}`, `{"Action":"pass"}`,
		}, counts{passed: 2}, ""},
		"a failure and its output": {[]string{
			`{"Action":"output","Test":"TestStore/a","Output":"store_test.go:7: lost\n"}`, `{"Action":"fail","Test":"TestStore/a"}`,
			`{"Action":"skip","Test":"TestStore/b"}`, `{"Action":"fail","Test":"TestStore"}`, `{"Action":"fail"}`,
		}, counts{failed: 1, skipped: 1}, "lost"},
		"a failure of the parent alone": {[]string{`{"Action":"fail","Test":"TestStore"}`}, counts{failed: 1}, ""},
		"a build that fails":            {[]string{`# pkg`, `{"Action":"output","Output":"undefined: x\n"}`, `{"Action":"fail"}`}, counts{}, "undefined: x"},
		"nothing":                       {nil, counts{}, ""},
		"names that begin alike":        {[]string{`{"Action":"pass","Test":"TestA"}`, `{"Action":"pass","Test":"TestAB"}`}, counts{passed: 2}, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, output, err := count(strings.NewReader(strings.Join(tt.events, "\n")))
			if err != nil || got != tt.want || !strings.Contains(output, tt.output) || (tt.output == "") != (output == "") {
				t.Errorf("counts %+v, output %q, error %v; want %+v, %q", got, output, err, tt.want, tt.output)
			}
		})
	}
}

// TestEveryPairExists holds the table to the tree: each pair's folder has tests, and each folder that runs a suite is in a pair.
func TestEveryPairExists(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	missing, err := unlisted(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range missing {
		t.Errorf("%s runs a suite and is in no pair", m)
	}
}
