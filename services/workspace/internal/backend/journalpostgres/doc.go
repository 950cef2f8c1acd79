// Package journalpostgres keeps journals in PostgreSQL: the shared store of many replicas, in a schema of its own, so that the database can be
// that of the files.
//
// A plain commit is one call of a function in the database, in one round trip with its transaction; commits that wait at the same time share one. What
// that function leaves alone takes a transaction of several statements with the rules of package journalsql. Owners are judged by the database's
// clock.
//
// Replicas tell each other of changes by LISTEN and NOTIFY after the commit: within it, NOTIFY would have all commits of the database wait for one
// another. Who waits also looks twice a second, so that a replica that dies before it told, or a lost connection, delays nothing by more.
package journalpostgres
