// Package manifest implements [files.Store] over a store of immutable objects. The backends redis and object give it a [Driver] each.
//
// A space is a log of numbered entries, each created only if it is not there yet. An entry holds all that one update, or several together, changed: files put and
// removed, whiteouts, history, the change log and the outcomes of effects. So an update is all or nothing, and of two writers who want the same number one wins; the
// other catches up and runs again. Contents are chunks of immutable names that are written before the entry that speaks of them.
//
//	entries      1, 2, 3, …       what changed; a replica applies them to the state that it holds
//	checkpoints  at some entries  the whole state, so that nobody reads the log from its beginning
//	packs        entries together what Watch and repeated effects may still ask for, after the entries themselves are gone
//	chunks       contents and packs, of at most 1 MiB each
//
// Every read first asks for entries that are newer than the state in memory, so replicas see each other's writes at once; readers at the same time share the question.
// A replica keeps the states of recently used spaces, and recently read chunks, within bounds.
//
// Removal is lazy. Replaced contents go an hour after they were replaced, entries an hour after a checkpoint has covered them, and chunks that no entry ever spoke of after a
// day. A replica that has not looked for ten minutes asks whether its place in the log still exists before it trusts the absence of a newer entry. Forget leaves
// the space's last entry, a tombstone of a few bytes, so that a late writer finds its number taken.
package manifest
