package testkit

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

func TestDockerRunsAnImageOfTheHostsFiles(t *testing.T) {
	e := Docker(t)
	e.HostImage(t, "gantry.test/shell:1", Shell())
	out := e.Run(t, "run", "--rm", "--network=none", "gantry.test/shell:1", "sh", "-c", "echo from inside; id -u; ls / | head -3 | wc -l")
	if !strings.HasPrefix(out, "from inside\n0\n3") {
		t.Errorf("output = %q", out)
	}
}

func TestInDockerReachesPublishedPorts(t *testing.T) {
	InDocker(t, func(t *testing.T, e Engine) {
		image, err := PostgresImage()
		if err != nil {
			Skip(t, "postgres", "%v", err)
		}
		e.HostImage(t, "gantry.test/postgres:1", image)
		id := e.Run(t, "run", "-d", "-p", "127.0.0.1:15432:5432", "-e", "POSTGRES_PASSWORD=secret", "-e", "POSTGRES_DB=app", "gantry.test/postgres:1", "postgres", "-c", "fsync=off")
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(e.Run(t, "logs", id))
			}
			e.Run(t, "rm", "-f", id)
		})
		Eventually(t, 30*time.Second, func() error {
			return psql("postgres://postgres:secret@127.0.0.1:15432/app?sslmode=disable", "SELECT 1")
		})
		if err := psql("postgres://postgres:wrong@127.0.0.1:15432/app?sslmode=disable", "SELECT 1"); err == nil {
			t.Error("any password opens the database")
		}
		if c, err := net.DialTimeout("tcp", "127.0.0.1:1", time.Second); err == nil {
			c.Close()
			t.Error(errors.New("port 1 is open: is this the engine's own namespace?"))
		}
	})
}
