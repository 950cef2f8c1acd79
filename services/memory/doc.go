// Package memory is the memory service: it remembers what agents learn, as plain Markdown in the bucket of the caller, and finds it again.
//
// The service stores nothing but an index that can be thrown away. Ledgers, MEMORY.md and the records of where facts come from are files of the bucket, which it reads and
// writes through FilesystemService with the identity of the call; messages of threads come from ThreadService. So it can be replaced, moved or run many times
// over one store, and whoever opens the files sees all there is.
//
// Reading order: proto/gantry/memory/v1, internal/memory/doc.go, internal/index, internal/backend/bleveindex, memorytest.
package memory
