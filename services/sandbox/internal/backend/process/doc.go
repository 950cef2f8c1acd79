// Package process is the driver for hosts where commands are trusted: they run as the user of the service, in a directory of the host, with the
// service's network and files. It isolates nothing. It refuses to work until the operator configures it.
//
// What it shares with the other drivers is everything else: the supervisor, records by effect id, drained output, limits of time, and that no process of
// a command outlives it. Where control groups can be written, each exec has one and is killed by it. Elsewhere the supervisor adopts orphans and
// finds the processes of an exec by their ancestry and by a variable in their environment.
package process
