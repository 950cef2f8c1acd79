package gotest_test

import (
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/testkit/gotest"
)

func TestCount(t *testing.T) {
	tests := map[string]struct {
		events                  []string
		passed, failed, skipped int
		output, skip            string
	}{
		"leaves only": {events: []string{
			`{"Action":"run","Test":"TestStore"}`, `{"Action":"pass","Test":"TestStore/a"}`, `{"Action":"pass","Test":"TestStore/b/c"}`,
			`{"Action":"pass","Test":"TestStore/b"}`, `{"Action":"pass","Test":"TestStore"}`, `{"Action":"pass"}`,
		}, passed: 2},
		"a failure and its output": {events: []string{
			`{"Action":"output","Test":"TestStore/a","Output":"store_test.go:7: lost\n"}`, `{"Action":"fail","Test":"TestStore/a"}`,
			`{"Action":"output","Test":"TestStore/b","Output":"=== RUN   TestStore/b\n"}`,
			`{"Action":"output","Test":"TestStore/b","Output":"    store_test.go:9: no history\n"}`,
			`{"Action":"output","Test":"TestStore/b","Output":"    --- SKIP: TestStore/b (0.00s)\n"}`,
			`{"Action":"skip","Test":"TestStore/b"}`, `{"Action":"fail","Test":"TestStore"}`, `{"Action":"fail"}`,
		}, failed: 1, skipped: 1, output: "lost", skip: "TestStore/b: store_test.go:9: no history"},
		"a failure of the parent alone": {events: []string{`{"Action":"fail","Test":"TestStore"}`}, failed: 1},
		"a build that fails":            {events: []string{`# pkg`, `{"Action":"output","Output":"undefined: x\n"}`, `{"Action":"fail"}`}, output: "undefined: x"},
		"nothing":                       {},
		"names that begin alike":        {events: []string{`{"Action":"pass","Test":"TestA"}`, `{"Action":"pass","Test":"TestAB"}`}, passed: 2},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := gotest.Count(strings.NewReader(strings.Join(tt.events, "\n")))
			if err != nil || got.Passed != tt.passed || got.Failed != tt.failed || got.Skipped != tt.skipped {
				t.Errorf("counts %+v, error %v", got, err)
			}
			if !strings.Contains(got.Output, tt.output) || (tt.output == "") != (got.Output == "") {
				t.Errorf("output %q, want %q", got.Output, tt.output)
			}
			if strings.Join(got.Skips, "\n") != tt.skip {
				t.Errorf("skips %q, want %q", got.Skips, tt.skip)
			}
		})
	}
}

func TestTestsOfThisPackage(t *testing.T) {
	got, err := gotest.Tests(t.Context(), gotest.Run{Dir: ".", Pattern: "^TestCount$/^nothing$", Timeout: "1m"})
	if err != nil || got.Passed != 1 || got.Failed != 0 {
		t.Errorf("counts %+v, error %v", got, err)
	}
}
