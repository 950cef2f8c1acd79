// Package pgnotify lets the processes that share a PostgreSQL database tell each other what has changed, by LISTEN and NOTIFY. It speeds waiting up and no more: what is lost with a
// connection or a process is told by nobody, so who waits must look now and then.
package pgnotify
