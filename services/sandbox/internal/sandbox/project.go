package sandbox

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Projector gives the files of the caller's bucket that belong into its sandbox. The identity is in the context.
type Projector interface {
	// List says which files there are.
	List(ctx context.Context, include []string, runtime bool) (Projection, error)
	// Fetch gives the contents of files, each once, in any order. A file that has changed since it was listed is left out.
	Fetch(ctx context.Context, files []ProjectedFile, write func(ProjectedFile, io.Reader) error) error
}

// Projection is what should be inside.
type Projection struct {
	Files       []ProjectedFile
	Fingerprint string
	Warnings    []string
}

// ProjectedFile is one file of a projection.
type ProjectedFile struct {
	Path   string
	SHA256 string
	Size   int64
	Mode   fs.FileMode
}

// ProjectionResult says what became of a projection.
type ProjectionResult struct {
	Fingerprint             string
	Deferred                bool
	Files, Written, Removed int
	FetchedBytes            int64
	Conflicts, Warnings     []string
}

// The paths of the layout belong to the workspace service. They exist in every projected sandbox, empty if need be, so that a command that writes
// there fails instead of leaving a file that nobody else will see.
var (
	layoutDirs  = []string{"agents", "knowledge", "large_tool_results", "memory", "plans", "skills", "subagents"}
	layoutFiles = []string{"AGENTS.md", "MEMORY.md", "tools.json"}
)

const maxConflicts = 100

// project makes the projected files of a workspace equal to what is wanted. tree has the owner's rights; files are replaced atomically one by one.
func project(ctx context.Context, tree Tree, p Projector, want Projection) (ProjectionResult, error) {
	res := ProjectionResult{Fingerprint: want.Fingerprint, Files: len(want.Files), Warnings: want.Warnings}
	have := map[string]ProjectedFile{}
	if err := projected(ctx, tree, "", have); err != nil {
		return res, err
	}
	wanted := map[string]bool{}
	var missing []ProjectedFile
	for _, f := range want.Files {
		wanted[f.Path] = true
		mode := readOnlyMode(f.Mode)
		if h, ok := have[f.Path]; ok && h.SHA256 == f.SHA256 && h.Mode == mode {
			continue
		}
		if taken(ctx, tree, f.Path) {
			res.conflict(f.Path)
			continue
		}
		missing = append(missing, f)
	}
	for _, name := range layoutDirs {
		if taken(ctx, tree, name) {
			res.conflict(name)
		} else if err := tree.Mkdir(ctx, name); err != nil {
			return res, err
		}
	}
	var paths []string
	for name := range have {
		paths = append(paths, name)
	}
	slices.Sort(paths)
	for _, name := range paths {
		if !wanted[name] && !slices.Contains(layoutFiles, name) {
			if err := tree.Remove(ctx, name, false); err != nil {
				return res, err
			}
			res.Removed++
		}
	}
	if len(missing) > 0 {
		err := p.Fetch(ctx, missing, func(f ProjectedFile, r io.Reader) error {
			if _, err := tree.Write(ctx, f.Path, r, WriteOptions{Mode: readOnlyMode(f.Mode)}); err != nil {
				return err
			}
			res.Written++
			res.FetchedBytes += f.Size
			return nil
		})
		if err != nil {
			return res, err
		}
	}
	for _, name := range layoutFiles {
		if h, ok := have[name]; wanted[name] || ok && h.Size == 0 {
			continue
		}
		if taken(ctx, tree, name) {
			res.conflict(name)
		} else if _, err := tree.Write(ctx, name, strings.NewReader(""), WriteOptions{Mode: 0o444}); err != nil {
			return res, err
		}
	}
	if res.Written < len(missing) {
		// What was listed is not what is inside, so the next call must look again.
		res.Fingerprint = ""
	}
	return res, nil
}

func (r *ProjectionResult) conflict(path string) {
	if len(r.Conflicts) < maxConflicts {
		r.Conflicts = append(r.Conflicts, path)
	}
}

// readOnlyMode is the mode of a projected file: readable, executable if it was, writable for nobody.
func readOnlyMode(mode fs.FileMode) fs.FileMode {
	return mode.Perm()&0o555 | 0o444
}

// taken says whether commands have something of their own at a path or at one of its parents.
func taken(ctx context.Context, tree Tree, name string) bool {
	for p := name; p != "." && p != "/" && p != ""; p = path.Dir(p) {
		e, err := tree.Lstat(ctx, p)
		if errors.Is(err, errdefs.ErrNotFound) {
			continue
		}
		if err != nil || !e.ReadOnly || p != name && e.Kind != fs.ModeDir || p == name && e.Kind == fs.ModeSymlink {
			return true
		}
	}
	return false
}

// projected collects the files that commands cannot change, with their hashes.
func projected(ctx context.Context, tree Tree, dir string, into map[string]ProjectedFile) error {
	list, err := tree.ReadDir(ctx, dir, "", 0)
	if err != nil {
		return err
	}
	for _, e := range list {
		switch {
		case !e.ReadOnly:
		case e.Kind == fs.ModeDir:
			if err := projected(ctx, tree, e.Path, into); err != nil {
				return err
			}
		case e.Kind == 0:
			sum, err := hashFile(ctx, tree, e.Path)
			if err != nil {
				return err
			}
			into[e.Path] = ProjectedFile{Path: e.Path, SHA256: sum, Size: e.Size, Mode: e.Mode}
		}
	}
	return nil
}

func hashFile(ctx context.Context, tree Tree, name string) (string, error) {
	f, err := tree.Open(ctx, name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
