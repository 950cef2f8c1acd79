// Package offline is the provider for when there is no language model. Fixed rules read plain instructions in English, in
// basic German and in basic Chinese, turn them into calls of the tools that the request offers, and report what came of
// them. It always says that no model is there, and what it did not understand.
//
// How it works, in the order of reading: turn.go finds the instructions that are not answered yet; literals.go takes out
// what stands between quotes, in code and in paths; grammar.go, english.go, german.go and chinese.go say how steps may be
// written; parse.go splits an instruction into steps and clause.go reads one; sense.go rejects what fits a pattern but
// cannot be meant; execution.go replays the steps over the results that the conversation holds and stops at the first call
// without one; perform.go, files.go, mind.go and delegate.go say which calls a step makes, tools.go how arguments are fitted
// to schemas; evidence.go answers questions from what is known; report.go writes the answer.
//
// ExtractFacts and Summarise are the same kind of rules for memory: what is worth keeping, and how to say it shorter.
//
// Each request is answered from the conversation alone. The steps of a turn are a function of its instructions, each step
// makes a bounded number of calls, so a turn ends.
package offline
