// Package inmemory holds small, faithful implementations of the services that the orchestrator calls, for tests: the thread journal with owners, epochs,
// mailboxes and fencing, a workspace of definitions and files with effect records, and a task queue with leases and delivery. They keep everything in memory
// and are obvious rather than fast.
package inmemory
