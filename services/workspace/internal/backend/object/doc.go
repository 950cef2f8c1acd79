// Package object keeps the files of buckets in an object store: S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage, through gocloud.dev/blob. Many
// replicas may share it. See package manifest for what it stores.
//
//	spaces/SPACE!                   holds the name of a space; made before its first entry, never removed
//	data/SPACE!/log/NUMBER          an entry, created only if it is not there
//	data/SPACE!/state/NUMBER        a checkpoint
//	data/SPACE!/chunk/NAME          a chunk
//	staged/NAME                     a chunk of no space yet; removed after a day
//
// The one thing asked of a provider beyond reading, writing, listing and deleting is the conditional create (If-None-Match: *). Open proves it with probe objects and
// refuses a provider without it. Reads and lists must show what was written before, as the three large providers promise.
//
// Nobody tells a replica of changes, so whoever waits for them looks once a second: one small request for each space that is watched.
//
// The scheme file:// is for tests and single machines: creation is guarded by a lock file, for processes of one host, and a crash of the machine may lose what was written last.
// The scheme mem:// lasts as long as the process.
package object
