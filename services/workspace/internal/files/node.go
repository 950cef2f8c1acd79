package files

import (
	"io"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
)

// Space names the files that belong together in a store. It is a relative path of legal file names too.
type Space string

// BucketSpace is the space of a bucket.
func BucketSpace(b identity.Bucket) Space { return Space(b.Key()) }

// TemplateSpace is the space of an agent's stored template. No bucket has its name: "template" is no scope.
func TemplateSpace(tenant, agent string) Space {
	return TemplatePrefix(tenant) + Space(identity.EncodeSegment(agent))
}

// TemplatePrefix begins the names of the spaces of a tenant's stored templates.
func TemplatePrefix(tenant string) Space {
	return Space(identity.EncodeSegment(tenant) + "/template/")
}

// Kind tells files from directories.
type Kind uint8

const (
	// KindNone: nothing is there.
	KindNone Kind = iota
	// KindFile is a regular file.
	KindFile
	// KindDir is a directory.
	KindDir
)

// Node is a file or a directory of a tree. The zero node is nothing.
type Node struct {
	// Path in the tree, with the bytes under which it was written.
	Path fsops.Path
	// Kind of the node.
	Kind Kind
	// Size in bytes; 0 for directories.
	Size int64
	// ModTime is when the content last changed, by the store's clock.
	ModTime time.Time
	// Revision changes with every change of the file and is never used again; "" for directories.
	Revision string
	// SHA256 of the content in lower-case hex; "" for directories, and where the file would have to be read for it.
	SHA256 string
	// Mode holds the permission bits.
	Mode uint32
	// Author of the revision.
	Author string
	// Ref is the backend's own name of the content.
	Ref string
	// Replaced is when a kept previous revision was replaced or removed, by the store's clock; zero for the current one.
	Replaced time.Time
	// Removed says that nothing took the place of a previous revision: the file was deleted or moved away.
	Removed bool
}

// Exists says whether the node is something.
func (n Node) Exists() bool { return n.Kind != KindNone }

// Layer is where a view has a path from.
type Layer uint8

const (
	// LayerAny: as the view shows it. Only in requests.
	LayerAny Layer = iota
	// LayerBucket is what the bucket wrote.
	LayerBucket
	// LayerUser is the template's directory for the user.
	LayerUser
	// LayerTemplate is the shared template.
	LayerTemplate
)

// Entry is a node as a view shows it.
type Entry struct {
	Node
	// Layer that it comes from; for a directory the highest that has it.
	Layer Layer
	// Shadows says that a lower layer has the path too.
	Shadows bool
}

// Content is the bytes of one revision. It stays readable while the file is changed or removed, for an hour at least.
type Content interface {
	fsops.Content
	io.Closer
}

// ChangeKind is what happened to a path.
type ChangeKind uint8

const (
	// ChangeWritten: created, written, edited or appended to.
	ChangeWritten ChangeKind = iota + 1
	// ChangeDeleted: deleted, or hidden by a whiteout.
	ChangeDeleted
	// ChangeMoved: moved here.
	ChangeMoved
)

// Change is one entry of the change log of a space.
type Change struct {
	// Cursor after this change; the store sets it.
	Cursor Cursor
	// Kind of the change.
	Kind ChangeKind
	// Path that changed.
	Path fsops.Path
	// From is where a moved path came from.
	From fsops.Path
	// Revision after the change; "" when deleted.
	Revision string
	// Time by the store's clock; the store sets it.
	Time time.Time
	// Author of the change.
	Author string
}

// Usage is what a space holds.
type Usage struct {
	Bytes, Files, Whiteouts int64
}
