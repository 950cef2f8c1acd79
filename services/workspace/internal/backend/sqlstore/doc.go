// Package sqlstore implements [files.Store] over an SQL database. The backends sqlite and postgres give it a [DB] each: how to connect, how to run one update at a
// time for a space, and what the driver's errors mean. The tables and statements are the same.
//
//	spaces     name, generation, counters: sequence of changes, revisions, bytes, files
//	nodes      files and directories of a space, by key; directories have rows, so that listing one costs what it has
//	contents   the bytes of one file, in chunks; a replaced content stays for an hour for those who read it
//	whiteouts  changes  effects
package sqlstore
