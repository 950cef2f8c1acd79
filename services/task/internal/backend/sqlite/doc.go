// Package sqlite keeps tasks in one SQLite file, without cgo. It is the store of a task service that runs alone.
//
// One connection writes. Transactions that wait for it are committed together, each within its own savepoint, so that one fsync serves many; a pool of connections reads beside it
// (write-ahead log). synchronous is FULL: what Update returned survives a loss of power.
//
// A row holds the task's record as JSON and, in columns, what is searched by. Rows that are ready to be leased and rows that time will change have partial indexes of
// their own, so that neither a claim nor the next wake time walks over anything else, however many tasks have ended or wait.
package sqlite
