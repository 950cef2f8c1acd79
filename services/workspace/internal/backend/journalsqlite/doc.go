// Package journalsqlite keeps journals in one SQLite file: the embedded store, for one process or a few on one machine.
//
// All changes go through one connection with synchronous FULL. Operations queue up, and up to 64 of them share a transaction and so one wait for the
// disk; each has a savepoint, so one that is refused leaves nothing. Reads use a pool of connections and see one state each (WAL). The head of every thread
// holds what a commit must look at, and an event's row id is its log and its sequence, so the cost of a commit and of a read does
// not depend on the length of the journal.
//
// Several processes may open one file. Each wakes its own waiters at once; changes by others are noticed by SQLite's data version, twice a second.
package journalsqlite
