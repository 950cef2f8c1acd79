// Package sqlite keeps buckets in one SQLite file: the embedded store of a service that runs alone.
//
// The database runs in WAL mode with synchronous FULL, so that what is acknowledged survives a loss of power. One goroutine owns the only connection that writes
// and puts the updates that wait into one transaction, each behind a savepoint (group commit); readers have connections of their own and never wait
// for it. A lock beside the file keeps other processes out.
package sqlite
