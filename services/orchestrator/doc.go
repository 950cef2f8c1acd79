// Package orchestrator is the service that runs agents: it composes the workspace, memory, sandbox and task services for each call.
//
// The words: an agent is a definition; a thread is one conversation; a run is the work that one call starts on a thread; a step is one model request and the
// calls that it asks for; an effect is what a call changes outside of the run. A run lives in the journal of its thread and not in this process: whatever
// replica owns the thread goes on with it, and a replica that dies loses nothing.
//
// It owns no storage. The loop is package internal/loop, a pure state machine; internal/run drives it with a journal, models, tools and people; internal/journal
// keeps this replica's claim to threads alive; internal/worker runs the tasks in which agents work for agents; internal/kit puts together what one run works with.
package orchestrator
