// Package run executes runs: it drives the state machine of package loop with a journal, models, tools, and people.
//
// One thread that has work has one actor on one replica, the owner of the thread. The actor is a single goroutine: it takes mail, asks the machine what the
// open run needs, does it, turns the outcome into events, commits them, and only then lets anybody see them or any effect leave. When nothing is left to do,
// because the run ended or waits for a person, the thread is released and the actor ends; an idle thread costs nothing.
//
// Everything that comes from outside travels by the thread's mailbox, also on the replica that owns the thread, so that it is not lost when the owner dies:
// inputs, steering, cancels, answers, results of tasks. Whoever posts on the owner's replica gives the actor a nudge; mail from other replicas is found with the
// next commit, or by a look into the mailbox twice a second while a model or a tool works.
//
// Watchers read the journal up to where it is and then get what the actor commits, and deltas of text on the way. A watcher that is too slow is cut off from
// the live feed and reads the journal again: it never holds up the run.
package run
