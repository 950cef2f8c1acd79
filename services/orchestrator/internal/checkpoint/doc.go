// Package checkpoint makes the cost of opening a thread independent of the thread's length. [Payload] makes the event checkpoint/written, which holds the
// projection of everything before it, and [Open] reads a thread from its last checkpoint on.
//
// The journal stays the only truth. A checkpoint is used when it is whole, of a format that is known, and of the place where it stands; any other is passed
// over, with a line in the log, and the thread is folded from its first event. When an event is redacted the store makes every checkpoint after it a tombstone,
// also those that the owner of that time is still to write, for they may repeat what the event said.
package checkpoint
