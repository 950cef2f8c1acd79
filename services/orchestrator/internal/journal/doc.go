// Package journal is the orchestrator's side of the thread journal: it keeps this replica's claim to threads alive and writes to the threads that it holds.
//
// An [Owner] is one boot of one replica. It sends heartbeats; when they do not get through for the life that the store granted, counted on the monotonic
// clock from when the last one was sent, the owner gives up everything that it holds before the store could give it to somebody else, and goes on as a new
// boot. A [Thread] is a thread that the owner holds: it appends batches under the epoch of its acquisition. A batch that was sent and not answered is sent
// again under the same id until there is an answer or the owner is lost; an answer that says "fenced" ends the thread for this owner at once.
package journal
