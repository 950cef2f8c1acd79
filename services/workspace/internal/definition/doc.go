// Package definition reads what an agent is from its files, as one bucket sees them: rules, memory, knowledge, skills, subagents, tools and settings.
//
// A file that is not as it should be is left out, or used as far as it goes, and reported beside the rest: one bad skill costs nobody the others.
package definition
