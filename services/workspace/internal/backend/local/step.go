package local

import (
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// step is one change of the disk. Steps are carried out in their order; carrying all out again, after any number of them, is the same as once.
type step struct {
	Op   op
	Path fsops.Path
	// From is where a renamed file comes from.
	From fsops.Path
	// Staged names the content of opPut and opAppend in the staging directory.
	Staged string
	// Offset is where appended content goes.
	Offset int64
	// Inode of the file that is appended to, renamed or removed, so that another one that has taken its name stays.
	Inode uint64
	// Moves says that the file of an append may be elsewhere by now, by a later step.
	Moves bool
	// Keep is the content, by its id in the index, that goes into the history when the step replaces or removes the file with the inode KeepInode. 0: none.
	Keep      int64
	KeepInode uint64
	// Content is the id that a file from outside gets in the index.
	Content int64
	// Node is the file after the step, and Hash the state of its SHA-256.
	Node files.Node
	Hash []byte
}

// op is what a step does. The numbers are in intents on disks.
type op uint8

const (
	opPut op = iota + 1
	opAppend
	opRename
	opRemove
	opSetWhiteout
	opClearWhiteout
	// opNotice tells the index of a file from outside before it is changed.
	opNotice
	// opNothing is what is left of a step that a later one has made needless.
	opNothing
)

// onDisk says whether a step changes the disk, and not only what the index knows.
func (o op) onDisk() bool { return o <= opRemove }
