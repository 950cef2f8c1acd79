// Package importer takes over an AgentScope workspace directory: what its users have becomes their buckets, journals and ledgers of one agent.
//
//	AGENTS.md, tools.json, knowledge/, …     the template: not imported; name the directory as the agent's workspace
//	MEMORY.md, memory/, plans/, …            the bucket of scope agent, for they belong to no user
//	<user>/…                                 the bucket of scope user
//	…/agents/<id>/sessions/<s>.log.jsonl     the thread of session <s>: of the user, at the top of the anonymous one
//	…/agents/<id>/memory/                    the ledgers memory/ of the same owner
//	…/memory/.consolidation_state            the watermark of the memory service, memory/.consolidation.json
//
// # Rules
//
//   - What exists is never changed: a file that a bucket has with other content, and a session that has a journal, are left out and listed.
//   - What can't be mapped is listed with its reason, and the rest goes on. Only a store that fails ends an import.
//   - A repeat takes over what is new and nothing twice: files are compared by content and written under effect ids that follow from owner, path and
//     content; the batches of a thread have ids that follow from its log.
//   - An import ends in good order before its context does, and says that there is more.
//   - No link is followed, at any depth. Each user's files are read through a root handle on the user's own directory, so that nothing of one user can
//     come into the bucket of another, whatever changes in the directory meanwhile.
//   - The name of a user's directory is the user's id, as it is: AgentScope does not encode ids.
//
// # Order of reading
//
// importer.go, owners.go, then files.go, ledger.go and threads.go with log.go.
package importer
