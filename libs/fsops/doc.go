// Package fsops is the meaning of the file operations, apart from where files are kept.
//
// Every implementer of gantry.filesystem.v1.FilesystemService uses it, so that a path, a pattern, an edit or a window of a file means the same on a
// local disk, in a database and inside a sandbox. Nothing here touches a disk or a network: paths are values, content comes as an [io.Reader] or
// [io.ReaderAt], and every failure is an [errdefs.Error] of the domain "gantry.filesystem.v1".
//
//	ParsePath, ParseFilePath   a path in a request → a [Path] beneath the root
//	ReadText, ReadBytes        a bounded window of a file, and where to go on
//	Edit                       exact replacements, all or none
//	CompileGlob                a pattern that is matched against paths
//	CompileGrep                a search that streams over content
//	Ignore                     what .gitignore files exclude
package fsops
