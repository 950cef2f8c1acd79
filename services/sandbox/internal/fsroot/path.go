package fsroot

import (
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// maxPath bounds a path in bytes.
const maxPath = 4096

// clean checks a path and makes it relative. It resolves nothing: "a/link/../b" must mean what the kernel says, since normalising before links are
// resolved approves another file than the one that is opened.
func clean(path string) (string, error) {
	if len(path) > maxPath {
		return "", fail(errdefs.ErrInvalidArgument, ReasonPathInvalid, path[:64], "the path has %d bytes, at most %d are allowed", len(path), maxPath)
	}
	if strings.IndexByte(path, 0) >= 0 {
		return "", fail(errdefs.ErrInvalidArgument, ReasonPathInvalid, strings.ReplaceAll(path, "\x00", "?"), "the path holds NUL")
	}
	var parts []string
	depth := 0
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
			continue
		case "..":
			depth--
		default:
			depth++
		}
		if depth < 0 {
			return "", fail(errdefs.ErrInvalidArgument, ReasonPathInvalid, path, "%q leaves the workspace", path)
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return ".", nil
	}
	return strings.Join(parts, "/"), nil
}

// split parts a clean path into its parent and a plain name. The root and paths that end in ".." have no name.
func split(path string) (dir, name string, err error) {
	dir, name = ".", path
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir, name = path[:i], path[i+1:]
	}
	if name == "." || name == ".." {
		return "", "", fail(errdefs.ErrInvalidArgument, ReasonPathInvalid, path, "%q names no file in a directory", path)
	}
	return dir, name, nil
}
