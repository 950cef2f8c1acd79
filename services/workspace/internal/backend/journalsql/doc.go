// Package journalsql implements [journal.Store] over a transactional SQL database. A backend brings a [DB]: how to read one state, how to write
// atomically, and what differs between databases ([Dialect]); it wakes waiters with a [Notifier].
//
// The head of every thread holds what a commit must look at, and an event's row id is its log and its sequence, so the cost of a commit and of a
// read does not depend on the length of the journal. A database with concurrent transactions locks, in this order: the owner, the thread, its
// logs, its blobs.
package journalsql
