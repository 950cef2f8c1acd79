// Package redis keeps the files of buckets in Redis 6.2 or newer: one server, one behind sentinels, or a cluster. Many replicas may share it. See package manifest
// for what it stores.
//
//	PREFIX:{SPACE}:head        number and nonce of the newest entry
//	PREFIX:{SPACE}:log         the entries, a stream with the ids NUMBER-0
//	PREFIX:{SPACE}:marks       checkpoint → when it was written
//	PREFIX:{SPACE}:states      checkpoint → state
//	PREFIX:{SPACE}:chunks      names of the chunks, by when they were written
//	PREFIX:{SPACE}:c:NAME      a chunk
//	PREFIX:staged:NAME         a chunk of no space yet; it expires after a day
//	PREFIX:spaces              the names of all spaces, in order
//
// An entry is created by a script that compares the head and appends, so it is atomic, and all keys of a space are in one slot of a cluster.
//
// # What the server must promise
//
// Files are no cache: the eviction policies allkeys-* are refused. With `appendonly yes` and `appendfsync always` an acknowledged change survives a crash of the server; with
// `everysec` the last second may be lost, and without an append-only file everything since the last snapshot. A fail-over to a replica loses what the replica had not
// received: WAIT would tell but not prevent it, `min-replicas-to-write` narrows it. A space whose log has lost entries that a workspace service has seen is loaded anew.
package redis
