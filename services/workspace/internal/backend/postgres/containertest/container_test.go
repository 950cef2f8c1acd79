package containertest

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/postgres"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/files/storetest"
)

const image = "gantry.test/postgres:1"

func TestStoreInContainer(t *testing.T) {
	testkit.InDocker(t, func(t *testing.T, e testkit.Engine) {
		made, err := testkit.PostgresImage()
		if err != nil {
			testkit.Skip(t, "postgres", "%v", err)
		}
		e.HostImage(t, image, made)
		container, err := testcontainers.Run(t.Context(), image,
			testcontainers.WithEnv(map[string]string{"POSTGRES_USER": "gantry", "POSTGRES_PASSWORD": "p@ss/word", "POSTGRES_DB": "gantry"}),
			testcontainers.WithExposedPorts("5432/tcp"), testcontainers.WithCmd("postgres", "-c", "fsync=off"),
			testcontainers.WithWaitStrategy(wait.ForListeningPort("5432/tcp").WithStartupTimeout(time.Minute)))
		testcontainers.CleanupContainer(t, container)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { logs(t, container) })
		endpoint, err := container.PortEndpoint(t.Context(), "5432/tcp", "")
		if err != nil {
			t.Fatal(err)
		}
		dsn := func(database string) string {
			return fmt.Sprintf("postgres://gantry:p%%40ss%%2Fword@%s/%s?sslmode=disable", endpoint, database)
		}
		// The engine's proxy listens before the server behind it does.
		testkit.Eventually(t, time.Minute, func() error {
			conn, err := pgx.Connect(t.Context(), dsn("gantry"))
			if err != nil {
				return err
			}
			return conn.Close(t.Context())
		})
		storetest.Run(testkit.Wrap(t), func(t testkit.T) files.Store {
			name := "t" + strings.ToLower(rand.Text())
			create(t, dsn("gantry"), name)
			store, err := postgres.Open(t.Context(), postgres.Config{DSN: dsn(name), MaxConns: 8}, time.Now)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			return store
		})
	})
}

// logs shows what the server says when the test fails.
func logs(t *testing.T, container testcontainers.Container) {
	t.Helper()
	if !t.Failed() {
		return
	}
	out, err := container.Logs(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Logf("no logs of the container: %v", err)
		return
	}
	defer out.Close()
	text, _ := io.ReadAll(out)
	t.Logf("the container says:\n%s", text)
}

// create makes a database for one case. The container takes it with it.
func create(t testkit.T, dsn, name string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		t.Fatal(err)
	}
}
