// Package loop is the reasoning loop as a pure state machine: journal events in, actions out, no I/O, no clock, no randomness.
//
// [Thread] is the projection of a thread's journal: [Thread.Apply] folds one event into it, and nothing else changes it. [Thread.Next] says what the
// open run needs now: a model request, a policy decision, a dispatch of calls, an answer from somebody, an end. Whoever executes an action turns the outcome
// into events, commits them, and applies them. As state comes from events alone, a run that is rebuilt from its journal on another machine is in the same state
// and wants the same action; what was in flight when its owner died shows as a model request or a call that was dispatched and has no end.
//
// The order of one step:
//
//	Prepare → request/prepared, model/dispatched → (model works) → model/ended, tool/requested … → Decide → tool/decided …
//	→ Dispatch → tool/dispatched … → (tools work) → tool/ended … → Prepare of the next step, or End
package loop
