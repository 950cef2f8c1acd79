package fsops

import (
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

func TestPageToken(t *testing.T) {
	token := PageToken("a/b", "list", "dir")
	if after, err := PageAfter(token, "list", "dir"); after != "a/b" || err != nil {
		t.Errorf("got %q, %v", after, err)
	}
	if after, err := PageAfter("", "list", "dir"); after != "" || err != nil {
		t.Errorf("first page: %q, %v", after, err)
	}
	for name, bad := range map[string]struct{ token, part string }{
		"another request": {token, "other"}, "no token": {"!", "dir"}, "cut": {token[:4], "dir"}, "changed": {token[:len(token)-2] + "zz", "dir"},
	} {
		if _, err := PageAfter(bad.token, "list", bad.part); errdefs.ReasonOf(err) != ReasonTokenInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}
