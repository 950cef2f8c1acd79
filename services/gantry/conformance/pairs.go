package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/services/gantry/internal/procs"
)

// kind says what a pair shows.
type kind string

const (
	// port: a suite of a port on one of its backends.
	port kind = "port"
	// api: a black-box suite against the service in the test's own process.
	api kind = "api"
	// process: the same suite against processes.
	process kind = "process"
	// broken: a suite on implementations that are broken on purpose; its tests pass when the suite fails on each.
	broken kind = "broken"
)

// pair is a suite and what it runs on.
type pair struct {
	kind  kind
	suite string
	on    string
	// pkg is the folder of the tests, run the pattern of their names.
	pkg, run string
	// needs is what GANTRY_TEST_REQUIRE calls the part without which the pair is skipped. Empty: nothing.
	needs string
	// target is the service that the suite is pointed at by GANTRY_TARGET, for kind process.
	target string
	// alone is for suites that nobody must interfere with: the target is a process without the others.
	alone bool
}

// pairs is every suite on everything that it is for. A new backend adds its line here; unlisted finds forgotten ones.
var pairs = []pair{
	{kind: port, suite: "files", on: "local", pkg: "services/workspace/internal/backend/local", run: "^TestStore$"},
	{kind: port, suite: "files", on: "sqlite", pkg: "services/workspace/internal/backend/sqlite", run: "^TestStore$"},
	{kind: port, suite: "files", on: "postgres in a container", pkg: "services/workspace/internal/backend/postgres/containertest", run: "^TestStoreInContainer$", needs: "docker"},
	{kind: port, suite: "files", on: "postgres", pkg: "services/workspace/internal/backend/postgres", run: "^TestStore$", needs: "postgres"},
	{kind: port, suite: "files", on: "a log of entries in memory", pkg: "services/workspace/internal/backend/manifest", run: "^TestStore$"},
	{kind: port, suite: "files", on: "redis", pkg: "services/workspace/internal/backend/redis", run: "^TestStore$", needs: "redis"},
	{kind: port, suite: "files", on: "object stores in memory and in files", pkg: "services/workspace/internal/backend/object", run: "^TestStore$/^(memory|file)$"},
	{kind: port, suite: "files", on: "s3", pkg: "services/workspace/internal/backend/object", run: "^TestStore$/^s3$", needs: "s3"},
	{kind: port, suite: "files", on: "routes to several stores of SQLite", pkg: "services/workspace/internal/backend/composite", run: "^TestStoreOver(SQLite|Three)$"},
	{kind: port, suite: "files", on: "routes from postgres", pkg: "services/workspace/internal/backend/composite", run: "^TestStoreOverPostgres$", needs: "postgres"},
	{kind: port, suite: "files", on: "routes from and to objects", pkg: "services/workspace/internal/backend/composite", run: "^TestStoreOverObjects$", needs: "s3"},
	{kind: port, suite: "replicas", on: "a log of entries in memory", pkg: "services/workspace/internal/backend/manifest", run: "^TestReplicas$"},
	{kind: port, suite: "replicas", on: "redis", pkg: "services/workspace/internal/backend/redis", run: "^TestReplicas$", needs: "redis"},
	{kind: port, suite: "replicas", on: "a cluster of redis", pkg: "services/workspace/internal/backend/redis", run: "^TestCluster$", needs: "redis"},
	{kind: port, suite: "replicas", on: "files", pkg: "services/workspace/internal/backend/object", run: "^TestReplicas$/^file$"},
	{kind: port, suite: "replicas", on: "s3", pkg: "services/workspace/internal/backend/object", run: "^TestReplicas$/^s3$", needs: "s3"},
	{kind: port, suite: "journal", on: "sqlite", pkg: "services/workspace/internal/backend/journalsqlite", run: "^TestStore$"},
	{kind: port, suite: "journal", on: "postgres", pkg: "services/workspace/internal/backend/journalpostgres", run: "^TestStore$", needs: "postgres"},
	{kind: port, suite: "index", on: "bleve on disk", pkg: "services/memory/internal/backend/bleveindex", run: "^TestOnDisk$"},
	{kind: port, suite: "index", on: "bleve in memory", pkg: "services/memory/internal/backend/bleveindex", run: "^TestInMemory$"},
	{kind: port, suite: "sandbox driver", on: "namespace", pkg: "services/sandbox/internal/backend/namespace", run: "^TestDriver$", needs: "namespace"},
	{kind: port, suite: "sandbox driver", on: "process", pkg: "services/sandbox/internal/backend/process", run: "^TestDriver$"},
	{kind: port, suite: "snapshots", on: "local directory", pkg: "services/sandbox/internal/backend/localstore", run: "^TestStore$"},
	{kind: port, suite: "tasks", on: "sqlite", pkg: "services/task/internal/backend/sqlite", run: "^TestStore$"},
	{kind: port, suite: "model", on: "offline", pkg: "libs/model/offline", run: "^TestConformance$"},
	{kind: port, suite: "model", on: "scripted", pkg: "libs/model/scripted", run: "^TestConformance$"},
	{kind: port, suite: "model", on: "ollama", pkg: "libs/model/ollama", run: "^TestConformance$", needs: "ollama"},
	{kind: port, suite: "model", on: "openai, recorded", pkg: "libs/model/openai", run: "^TestConformanceOnRecordings$"},
	{kind: port, suite: "model", on: "wrappers of a provider", pkg: "libs/model", run: "^TestWrappersPassTheSuite$"},
	{kind: port, suite: "model", on: "openai, on ollama", pkg: "libs/model/openai", run: "^TestConformanceOnOllama$", needs: "ollama"},

	{kind: api, suite: "filesystem", on: "local", pkg: "services/workspace", run: "^TestFilesystem$/^local$"},
	{kind: api, suite: "filesystem", on: "sqlite", pkg: "services/workspace", run: "^TestFilesystem$/^sqlite$"},
	{kind: api, suite: "filesystem", on: "postgres", pkg: "services/workspace", run: "^TestFilesystem$/^postgres$", needs: "postgres"},
	{kind: api, suite: "filesystem", on: "redis", pkg: "services/workspace", run: "^TestFilesystem$/^redis$", needs: "redis"},
	{kind: api, suite: "filesystem", on: "object", pkg: "services/workspace", run: "^TestFilesystem$/^object$"},
	{kind: api, suite: "filesystem", on: "a whole suite's workspace", pkg: "services/gantry/internal/suite", run: "^TestFilesSuite$/^workspace$"},
	{kind: api, suite: "filesystem", on: "inside a sandbox", pkg: "services/gantry/internal/suite", run: "^TestFilesSuite$/^sandbox$", needs: "namespace"},
	{kind: api, suite: "filesystem", on: "the router", pkg: "services/gantry/internal/suite", run: "^TestFilesSuite$/^router", needs: "namespace"},
	{kind: api, suite: "workspace", on: "local", pkg: "services/workspace", run: "^TestWorkspace$/^local$"},
	{kind: api, suite: "workspace", on: "sqlite", pkg: "services/workspace", run: "^TestWorkspace$/^sqlite$"},
	{kind: api, suite: "workspace", on: "postgres", pkg: "services/workspace", run: "^TestWorkspace$/^postgres$", needs: "postgres"},
	{kind: api, suite: "workspace", on: "redis", pkg: "services/workspace", run: "^TestWorkspace$/^redis$", needs: "redis"},
	{kind: api, suite: "workspace", on: "object", pkg: "services/workspace", run: "^TestWorkspace$/^object$"},
	{kind: api, suite: "thread", on: "sqlite", pkg: "services/workspace/threadtest", run: "^TestThreadService$"},
	{kind: api, suite: "thread", on: "postgres", pkg: "services/workspace/threadtest", run: "^TestThreadServiceOnPostgres$", needs: "postgres"},
	{kind: api, suite: "memory", on: "index in memory", pkg: "services/memory", run: "^TestSuiteInMemory$"},
	{kind: api, suite: "memory", on: "index on disk", pkg: "services/memory", run: "^TestSuiteOnDisk$"},
	{kind: api, suite: "memory", on: "files without change sets", pkg: "services/memory", run: "^TestSuiteWithoutChangeSets$"},
	{kind: api, suite: "sandbox", on: "namespace", pkg: "services/sandbox", run: "^TestInMemory$", needs: "namespace"},
	{kind: api, suite: "task", on: "sqlite", pkg: "services/task", run: "^TestService$"},
	{kind: api, suite: "orchestrator", on: "services in memory", pkg: "services/orchestrator", run: "^TestSuite$"},

	{kind: process, suite: "filesystem", on: "workspace process", pkg: "services/workspace", run: "^TestFilesystem$/^local$", target: procs.Workspace},
	{kind: process, suite: "workspace", on: "workspace process", pkg: "services/workspace", run: "^TestWorkspace$/^local$", target: procs.Workspace},
	{kind: process, suite: "thread", on: "workspace process", pkg: "services/workspace/threadtest", run: "^TestThreadService$", target: procs.Workspace, alone: true},
	{kind: process, suite: "memory", on: "memory process", pkg: "services/memory", run: "^TestSuiteAtAddress$", target: procs.Memory},
	{kind: process, suite: "memory", on: "process over files in memory", pkg: "services/memory", run: "^TestSuiteInProcess$"},
	{kind: process, suite: "sandbox", on: "sandbox process", pkg: "services/sandbox", run: "^TestAddress$", target: procs.Sandbox, needs: "namespace"},
	{kind: process, suite: "sandbox", on: "killed process", pkg: "services/sandbox", run: "^TestProcess$", needs: "namespace"},
	{kind: process, suite: "task", on: "task process", pkg: "services/task", run: "^TestService$", target: procs.Task, alone: true},
	{kind: process, suite: "orchestrator", on: "six processes", pkg: "services/orchestrator", run: "^TestSuiteAtAddress$", target: procs.Orchestrator},

	{kind: broken, suite: "files", on: "faults", pkg: "services/workspace/internal/files/storetest", run: "Notice"},
	{kind: broken, suite: "filesystem", on: "faults", pkg: "services/workspace", run: "^TestFilesystemSuiteNotices$"},
	{kind: broken, suite: "journal", on: "faults", pkg: "services/workspace/internal/journal/storetest", run: "Notice"},
	{kind: broken, suite: "thread", on: "faults", pkg: "services/workspace/threadtest", run: "Notice"},
	{kind: broken, suite: "memory", on: "faults", pkg: "services/memory", run: "^TestSuiteNotices$"},
	{kind: broken, suite: "index", on: "faults", pkg: "services/memory/internal/backend/bleveindex", run: "^TestSuiteNoticesFaults$"},
	{kind: broken, suite: "sandbox", on: "faults", pkg: "services/sandbox", run: "Notice", needs: "namespace"},
	{kind: broken, suite: "sandbox driver", on: "faults", pkg: "services/sandbox/internal/sandbox/drivertest", run: "Notice", needs: "namespace"},
	{kind: broken, suite: "tasks", on: "faults", pkg: "services/task/internal/task/storetest", run: "Notice"},
	{kind: broken, suite: "task", on: "faults", pkg: "services/task", run: "Notice"},
	{kind: broken, suite: "orchestrator", on: "faults", pkg: "services/orchestrator", run: "Notice"},
	{kind: broken, suite: "model", on: "faults", pkg: "libs/model/modeltest", run: "Notice"},
}

// suiteCall is how a test file runs a suite, or shows that it notices faults.
var suiteCall = regexp.MustCompile(`\b(?:[a-z]+test\.Run|testkit\.Failures)\(`)

// unlisted finds packages whose tests run a suite and that no pair names.
func unlisted(root string) ([]string, error) {
	listed := map[string]bool{"services/gantry/e2e": true} // a suite of the whole, run by make test
	for _, p := range pairs {
		listed[p.pkg] = true
	}
	var found []string
	for _, top := range []string{"libs", "services"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil || !suiteCall.Match(text) {
				return err
			}
			pkg, err := filepath.Rel(root, filepath.Dir(path))
			if err != nil {
				return err
			}
			if pkg = filepath.ToSlash(pkg); !listed[pkg] {
				listed[pkg] = true
				found = append(found, pkg)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.Sort(found)
	return found, nil
}
