package testkit_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/testkit"
)

// put creates an object with If-None-Match: * and returns the status.
func put(t *testing.T, bucket string) int {
	t.Helper()
	u, err := url.Parse(bucket)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, u.Query().Get("endpoint")+"/"+u.Host+"/key", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("If-None-Match", "*")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	return answer.StatusCode
}

// The server honours conditional creates, unless it is told not to.
func TestS3(t *testing.T) {
	bucket := testkit.S3(t)
	if first, second := put(t, bucket), put(t, bucket); first != http.StatusOK || second != http.StatusPreconditionFailed {
		t.Errorf("two creates answer %d and %d", first, second)
	}
	bucket = testkit.S3Server(t, "-unconditional").URL
	if first, second := put(t, bucket), put(t, bucket); first != http.StatusOK || second != http.StatusOK {
		t.Errorf("unconditional: two creates answer %d and %d", first, second)
	}
}
