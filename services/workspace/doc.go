// Package workspace is the workspace service: the files of every bucket, the layers under them, what an agent is, and the journal of threads.
//
// It serves gantry.filesystem.v1.FilesystemService and gantry.workspace.v1.WorkspaceService on a store of buckets (backends.go lists them), and
// gantry.thread.v1.ThreadService on a store of journals. A bucket follows from the identity of the call; a request never names it.
//
// Reading order: the protos, then internal/files (the port Store and the layered view), internal/backend/sqlite, internal/rpc.
package workspace
