package disktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// maxVersioned bounds how many files a version is made of. With more, a tree can't tell.
const maxVersioned = 20_000

var _ files.Versioned = (*Tree)(nil)

// Version implements [files.Versioned]: a hash over the names and signatures of all that is there. It takes a stat for each file.
func (t *Tree) Version(ctx context.Context, paths ...fsops.Path) (string, error) {
	info, err := t.root.Stat(".")
	if err != nil {
		return "", missing(pathError(fsops.Path{}, err))
	}
	v := &versioner{tree: t, sum: sha256.New()}
	fmt.Fprintf(v.sum, "%x\n", Inode(info))
	for _, p := range paths {
		if err := v.add(ctx, p); err != nil {
			return "", err
		}
	}
	if v.files > maxVersioned {
		return "", nil
	}
	return hex.EncodeToString(v.sum.Sum(nil)[:16]), nil
}

type versioner struct {
	tree  *Tree
	sum   hash.Hash
	files int
}

func (v *versioner) add(ctx context.Context, p fsops.Path) error {
	info, err := v.tree.root.Stat(onDisk(p))
	switch {
	case err != nil:
		fmt.Fprintf(v.sum, "%q %v\n", p.String(), pathError(p, err))
		return ctx.Err()
	case !info.IsDir():
		fmt.Fprintf(v.sum, "%q %s\n", p.String(), Signature(info))
		return ctx.Err()
	}
	dir, err := v.tree.OpenDir(ctx, p)
	if err != nil || dir == nil {
		fmt.Fprintf(v.sum, "%q %v\n", p.String(), err)
		return ctx.Err()
	}
	defer dir.Close()
	return v.dir(ctx, dir.(*scanDir))
}

func (v *versioner) dir(ctx context.Context, d *scanDir) error {
	entries, warnings, err := d.Entries(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	slices.SortFunc(entries, func(a, b files.DirEntry) int { return strings.Compare(a.Name, b.Name) })
	fmt.Fprintf(v.sum, "%q %v %q\n", d.path.String(), err, warnings)
	for _, e := range entries {
		if v.files++; v.files > maxVersioned {
			return nil
		}
		if e.Kind == files.KindDir && !e.Link {
			if err := v.enter(ctx, d, e); err != nil {
				return err
			}
			continue
		}
		signature, err := d.signature(e)
		fmt.Fprintf(v.sum, "%q %s %v\n", e.Name, signature, err)
	}
	return nil
}

func (v *versioner) enter(ctx context.Context, d *scanDir, e files.DirEntry) error {
	sub, err := d.OpenDir(ctx, e)
	if err != nil || sub == nil {
		fmt.Fprintf(v.sum, "%q %v\n", e.Name, err)
		return ctx.Err()
	}
	defer sub.Close()
	return v.dir(ctx, sub.(*scanDir))
}

// signature is that of a file here, or of what a link leads to.
func (d *scanDir) signature(e files.DirEntry) (string, error) {
	if d.file != nil && !e.Link {
		return signatureIn(d.fd, e.Name)
	}
	info, err := d.tree.root.Stat(d.path.Join(e.Name).String())
	if err != nil {
		return "", err
	}
	return Signature(info), nil
}
