// Package fsroot implements [sandbox.Tree] on a directory handle with openat2: every look-up is resolved beneath the handle by the kernel, so no
// link and no race leads out. The handle may belong to another mount namespace, which is how the files inside a sandbox are served without
// running anything in it.
//
// Operations run with the file system user of the sandbox (setfsuid on a locked thread), so an RPC can do what a command can do, and no more.
package fsroot
