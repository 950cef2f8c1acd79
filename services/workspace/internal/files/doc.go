// Package files is the filesystem of a bucket: what a caller sees, and what may be done to it.
//
// The words of the package:
//
//	space    the files that belong together in a store: those of one bucket, or of one stored template
//	node     a file or a directory in a space; directories exist while something is below them
//	tree     read access to one flat layer: a space, or a directory of a template
//	layer    bucket over user override over shared template
//	whiteout a path of the bucket under which nothing of the lower layers is seen
//	view     the layers of one bucket, merged
//
// A backend implements [Store], which knows spaces and nothing of layers; [View] does everything else on top of it, so that layers, copy-up, whiteouts, quotas,
// change log and effects mean the same on every backend. The package knows neither protobuf nor SQL.
package files
