package cli

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"sync"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// tree fetches a directory, several files at once. What fails is told, and the rest goes on.
func (c *FsGet) tree(ctx context.Context, env *Env) error {
	to := or(c.To, path.Base(path.Clean("/"+c.Path)))
	if to == "-" || to == "/" || c.Revision != "" {
		return problem(errdefs.ErrInvalidArgument, "USAGE", "-r needs a directory to write into, and no --revision")
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		return c.into(ctx, env, clients.Files, to, "fetched")
	})
}

// into fetches everything below the path into a directory, which is made.
func (c *FsGet) into(ctx context.Context, env *Env, files fsv1.FilesystemServiceClient, to, verb string) error {
	// Asked first, so that a path that is wrong makes no directory.
	if _, err := files.List(ctx, &fsv1.ListRequest{Path: c.Path, Layer: c.layer(), PageSize: 1}); err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer root.Close()
	progress := c.progress(env)
	tally := newTally(env, c.JSON, progress)
	names := &localNames{goos: runtime.GOOS, seen: map[string]string{}}
	err = each(ctx, c.workers(), func(ctx context.Context, hand func(string) error) error {
		return bucketFiles(ctx, env, files, &fsv1.ListRequest{Path: c.Path, Recursive: true, Layer: c.layer(), PageSize: pageSize}, tally, hand)
	}, func(ctx context.Context, stop context.CancelCauseFunc, from string) {
		if err := c.below(ctx, files, from, root, names, tally); err != nil {
			tally.fail(from, err)
			if hopeless(err) {
				stop(err)
			}
		}
	})
	if err != nil {
		progress.clear()
		return err
	}
	return tally.end(verb)
}

// below fetches one file of the directory.
func (c *FsGet) below(ctx context.Context, files fsv1.FilesystemServiceClient, from string, root *os.Root, names *localNames, tally *Tally) error {
	name, err := names.of(below(c.Path, from))
	if err != nil {
		return err
	}
	info, err := c.fetch(ctx, files, from, root, filepath.FromSlash(name), tally.progress)
	if err != nil {
		return err
	}
	tally.done(info.GetSizeBytes())
	if !c.JSON {
		return nil
	}
	return tally.value(info)
}

// below is a path of the bucket relative to a directory. Nothing is cleaned here: a name that is wrong must stay wrong.
func below(dir, p string) string {
	dir = strings.Trim(path.Clean("/"+dir), "/")
	if dir == "" {
		return p
	}
	return strings.TrimPrefix(p, dir+"/")
}

// bucketFiles hands out the paths of all files of a recursive listing. One whose name no request can carry is told.
func bucketFiles(ctx context.Context, env *Env, files fsv1.FilesystemServiceClient, req *fsv1.ListRequest, tally *Tally, hand func(string) error) error {
	return listing(ctx, files, req, func(page *fsv1.ListResponse) error {
		env.warnings(page.GetWarnings())
		for _, e := range page.GetEntries() {
			switch {
			case isDir(e):
			case len(e.GetPathBytes()) > 0:
				tally.leave(e.GetPath(), "its name is not UTF-8")
			default:
				if err := hand(e.GetPath()); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// localNames checks names, and that no two of them are one file here.
type localNames struct {
	goos string
	mu   sync.Mutex
	seen map[string]string
}

func (n *localNames) of(name string) (string, error) {
	if err := localName(n.goos, name); err != nil {
		return "", err
	}
	if !foldsCase(n.goos) {
		return name, nil
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	folded := strings.ToLower(name)
	if other, taken := n.seen[folded]; taken && other != name {
		return "", problem(errdefs.ErrAlreadyExists, "NAME_UNSUPPORTED", "%q and %q are one file here, since letter case does not count", name, other)
	}
	n.seen[folded] = name
	return name, nil
}
