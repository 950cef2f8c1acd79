// Package local keeps buckets as plain files that an engineer can open, under DIR/buckets/<bucket key>/.
//
// Beside them, DIR/local.db (SQLite) knows what a disk can't: revisions, authors, hashes, whiteouts, the change log and the effects. One process owns DIR by a lock.
//
// A change is made in three steps: an intent is written and made durable, the disk is changed (rename of a synced temporary file, sync of the directory), and the outcome is committed while
// the intent goes. At start, intents that were left are carried out again: every step tells whether it was done already.
//
// People may change files beside the service. A file whose inode, size or times are not those that the database knows counts as changed outside: it has the author "outside" and a revision that
// follows from what the disk says. While somebody watches a bucket, it is scanned, and such changes are logged.
package local
