package memory_test

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/client"
	"github.com/gantry-agents/gantry/libs/inproc"
	"github.com/gantry-agents/gantry/libs/middleware"
	"github.com/gantry-agents/gantry/libs/server"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/memory"
	"github.com/gantry-agents/gantry/services/memory/memorytest"
	"github.com/gantry-agents/gantry/services/memory/memorytest/memfs"
	"github.com/gantry-agents/gantry/services/memory/memorytest/memthread"
)

func TestMain(m *testing.M) {
	testkit.LeakMain(m, goleak.IgnoreTopFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

// world is a network with a file service and a thread service, on which memory services are put.
type world struct {
	net     *inproc.Network
	auth    access.Config
	files   *memfs.Service
	threads *memthread.Service
}

func newWorld(tb testing.TB, faults memfs.Faults, auth access.Config) *world {
	w := &world{net: inproc.New(), auth: auth, files: memfs.New(faults), threads: memthread.New()}
	w.serve(tb, "files", func(r grpc.ServiceRegistrar) {
		filesystemv1.RegisterFilesystemServiceServer(r, w.files)
		threadv1.RegisterThreadServiceServer(r, w.threads)
	})
	return w
}

// serve puts a service on the network, behind the whole chain.
func (w *world) serve(tb testing.TB, name string, register func(grpc.ServiceRegistrar)) {
	tb.Helper()
	auth, err := access.New(w.auth, access.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	chain, err := middleware.Default(middleware.Options{Access: auth})
	if err != nil {
		tb.Fatal(err)
	}
	s, err := server.New(server.Config{Address: "memory:" + name}, chain, w.net)
	if err != nil {
		tb.Fatal(err)
	}
	register(s.Registrar())
	if err := s.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			tb.Errorf("stop %s: %v", name, err)
		}
	})
}

func (w *world) dial(tb testing.TB, name string) *grpc.ClientConn {
	tb.Helper()
	conn, err := client.Dial("memory:"+name, w.net)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close() })
	return conn
}

// memory puts a memory service on the network.
func (w *world) memory(tb testing.TB, name string, cfg memory.Config, deps memory.Deps) memorytest.Target {
	tb.Helper()
	files := w.dial(tb, "files")
	deps.Filesystem, deps.Threads = files, files
	if testing.Verbose() && deps.Logger == nil {
		deps.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	s, err := memory.New(tb.Context(), cfg, deps)
	if err != nil {
		tb.Fatal(err)
	}
	if err := s.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Stop(context.Background()); err != nil {
			tb.Errorf("stop: %v", err)
		}
	})
	w.serve(tb, name, s.Register)
	return memorytest.Target{Memory: w.dial(tb, name), Files: files, Threads: files}
}

func inMemory() memory.Config {
	cfg := memory.DefaultConfig()
	cfg.Index = "memory"
	cfg.SyncTime = time.Minute
	return cfg
}

func onDisk(tb testing.TB) memory.Config {
	cfg := inMemory()
	cfg.Index, cfg.IndexDir = "disk", tb.TempDir()
	return cfg
}

var (
	memoryTarget = flag.String("target", os.Getenv("GANTRY_TARGET"), "address of a memory service to run the suite against")
	filesTarget  = flag.String("files-target", os.Getenv("GANTRY_FILES_TARGET"), "address of the file service that it works on")
)

// TestSuiteAtAddress runs the suite against a service in another process.
func TestSuiteAtAddress(t *testing.T) {
	if *memoryTarget == "" || *filesTarget == "" {
		t.Skip("no -target and -files-target are given")
	}
	memorytest.Run(testkit.Wrap(t), func(t testkit.T) memorytest.Target {
		dial := func(address string) *grpc.ClientConn {
			conn, err := client.Dial(address, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		files := dial(*filesTarget)
		return memorytest.Target{Memory: dial(*memoryTarget), Files: files, Threads: files}
	})
}

func TestSuiteInMemory(t *testing.T) {
	memorytest.Run(testkit.Wrap(t), func(t testkit.T) memorytest.Target {
		return newWorld(t, memfs.Faults{}, access.Config{}).memory(t, "m", inMemory(), memory.Deps{})
	})
}

func TestSuiteOnDisk(t *testing.T) {
	memorytest.Run(testkit.Wrap(t), func(t testkit.T) memorytest.Target {
		return newWorld(t, memfs.Faults{}, access.Config{}).memory(t, "m", onDisk(t), memory.Deps{})
	})
}

// TestSuiteWithoutChangeSets runs the suite on a file service that changes one file at a time.
func TestSuiteWithoutChangeSets(t *testing.T) {
	memorytest.Run(testkit.Wrap(t), func(t testkit.T) memorytest.Target {
		return newWorld(t, memfs.Faults{NoChangeSets: true}, access.Config{}).memory(t, "m", inMemory(), memory.Deps{})
	})
}

// TestSuiteNotices runs the suite against services that are broken on purpose.
func TestSuiteNotices(t *testing.T) {
	for name, faults := range map[string]memfs.Faults{
		"a bucket that is ignored": {OneBucket: true},
		"a write that is dropped":  {DropAppends: true},
	} {
		t.Run(name, func(t *testing.T) {
			failures := testkit.Failures(func(t testkit.T) {
				memorytest.Run(t, func(t testkit.T) memorytest.Target {
					return newWorld(t, faults, access.Config{}).memory(t, "m", inMemory(), memory.Deps{})
				})
			})
			if len(failures) == 0 {
				t.Error("the suite passes")
			}
			for _, f := range failures[:min(3, len(failures))] {
				t.Log(f)
			}
		})
	}
}
