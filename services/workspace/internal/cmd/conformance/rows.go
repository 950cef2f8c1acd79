package main

// row is a line of the table: suites on one backend.
type row struct {
	name  string
	tests []tests
	// process runs the tests against a process of the service.
	process bool
	// skips are parts of names or reasons of cases that may be skipped: what the backend can't have by its nature.
	skips []string
}

// tests are those of a package below services/workspace whose names match.
type tests struct{ pkg, run string }

// rows are the suites on everything that they are for. A new backend adds its line.
var rows = []row{
	{name: "files_local", tests: []tests{{"internal/backend/local", "^TestStore$"}, {"", "^(TestFilesystem|TestWorkspace)$/^local$"}}},
	{name: "files_sqlite", tests: []tests{{"internal/backend/sqlite", "^TestStore$"}, {"", "^(TestFilesystem|TestWorkspace)$/^sqlite$"}}},
	{name: "files_postgres", tests: []tests{{"internal/backend/postgres", "^TestStore$"}, {"", "^(TestFilesystem|TestWorkspace)$/^postgres$"}}},
	{name: "files_redis", tests: []tests{{"internal/backend/redis", "^(TestStore|TestReplicas)$"}, {"", "^(TestFilesystem|TestWorkspace)$/^redis$"}}},
	{name: "files_object_mem", tests: []tests{{"internal/backend/object", "^TestStore$/^memory$"}}},
	{name: "files_object_file", tests: []tests{{"internal/backend/object", "^(TestStore|TestReplicas)$/^file$"}}},
	{name: "files_object_s3", tests: []tests{{"internal/backend/object", "^(TestStore|TestReplicas)$/^s3$"}, {"", "^(TestFilesystem|TestWorkspace)$/^object$"}}},
	{name: "files_composite", tests: []tests{{"internal/backend/composite", "^TestStoreOver"}, {"", "^TestRouted"}}},
	{name: "journal_sqlite", tests: []tests{{"internal/backend/journalsqlite", "^TestStore$"}, {"threadtest", "^TestThreadService$"}}},
	{name: "journal_postgres", tests: []tests{{"internal/backend/journalpostgres", "^TestStore$"}, {"threadtest", "^TestThreadServiceOnPostgres$"}}},
	{name: "process_files", process: true, tests: []tests{{"", "^(TestFilesystem|TestWorkspace)$/^local$"}}},
	{name: "process_threads", process: true, tests: []tests{{"threadtest", "^TestThreadService$"}}},
	{name: "rpcs_with_effect", tests: []tests{{"", "^TestEffects$"}}},
	{name: "broken", tests: []tests{
		{"internal/files/storetest", "Notice"}, {"internal/journal/storetest", "Notice"}, {"threadtest", "Notice"}, {"", "^TestFilesystemSuiteNotices$"},
	}},
}
