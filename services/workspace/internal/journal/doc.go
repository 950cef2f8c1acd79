// Package journal is the model of the thread journal: what a conversation is made of, who may write it, and what a store must promise.
//
// # Words
//
//   - A thread is one conversation, named by (tenant, agent, user, session) whatever the isolation scope. Its journal is an append-only list of
//     events, numbered 1, 2, 3, … without gaps. It is the only truth of the conversation.
//   - An owner is one boot of one orchestrator replica ("replica/boot"). It lives while it sends heartbeats ([OwnerLife] from the last that arrived,
//     by the store's clock); one heartbeat keeps every thread it holds. An owner that the store has judged expired, or that left, never lives again.
//   - The epoch of a thread counts its acquisitions. A commit names the epoch it was given, and the store compares inside the transaction: that,
//     never a clock, keeps two owners from writing. An owner whose time ran out but whom nobody has judged yet may still commit.
//   - A batch is what one commit adds, all or nothing: events, consumed mail, timers, what happens to the open run, the release of the thread. Its id
//     makes a repeat harmless. The end of every batch is a place where the thread can be forked.
//   - The mailbox of a thread takes messages from anybody, without a lease: inputs, cancels, answers, task results, timers. A message has an id,
//     so a repeat is harmless; it leaves the mailbox with the commit that consumes it, and its id is remembered.
//   - A thread is due when nobody owns it and there is work that no task's worker will do: an open run that is not suspended, or a message with wake
//     set whose time has come. [Ownership.ClaimExpired] hands due threads out.
//   - A log holds events. A fork has a log of its own that begins where it left the other one; what lies before is shared, never copied.
//     A log outlives its thread while a fork needs it.
//   - A blob is bytes by their SHA-256, within one tenant. Payloads over [InlinePayloadBytes] are kept as blobs without the caller noticing.
//   - A tombstone is an event whose payload was redacted; the payload's hash stays.
//   - A checkpoint is an event of type [TypeCheckpoint], a projection of everything before it, so that opening a thread costs the same at any length.
//
// # Checks
//
// Every event has a checksum over the checksum before it, its own head and the hash of its payload ([Chain]). Readers verify it, and the thread keeps
// the last one; so a record that is changed, missing, doubled or out of order is found when it is read, and so is a lost end. Since
// only the payload's hash is covered, redaction leaves the chain whole.
//
// # Order of reading
//
// types.go and batch.go, then [Store] in store.go, then storetest, which says the same in tests, then a backend.
package journal
