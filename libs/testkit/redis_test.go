package testkit_test

import (
	"net"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/testkit"
)

func TestRedis(t *testing.T) {
	first, second := testkit.Redis(t), testkit.Redis(t)
	if first == second {
		t.Errorf("two calls share the database %s", first)
	}
	address, _, _ := strings.Cut(strings.TrimPrefix(first, "redis://"), "/")
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 7)
	if _, err := c.Read(answer); err != nil || string(answer) != "+PONG\r\n" {
		t.Errorf("got %q, %v", answer, err)
	}
}
