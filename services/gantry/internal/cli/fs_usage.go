package cli

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
)

// FsDu adds up sizes.
type FsDu struct {
	Target
	OneLayer
	Path  string `arg:"" optional:"" help:"Directory."`
	Depth int    `short:"d" help:"Show directories down to this depth below the path." default:"1"`
}

// Help shows an example.
func (FsDu) Help() string {
	return example("gantry fs du --depth 2 --user ana", "gantry fs du --layer bucket memory --user ana") +
		"\n\nSizes are of the files as the bucket sees them; the last line says what the bucket itself holds against its quota."
}

// total is what a directory holds, with everything below.
type total struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Files int64  `json:"files"`
}

// Run adds up page by page; only the directories that are shown are kept in memory.
func (c *FsDu) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		root := strings.Trim(path.Clean("/"+c.Path), "/")
		totals := map[string]*total{root: {Path: root}}
		req := &fsv1.ListRequest{Path: c.Path, Recursive: true, Layer: c.layer(), PageSize: pageSize}
		err := listing(ctx, clients.Files, req, func(page *fsv1.ListResponse) error {
			env.warnings(page.GetWarnings())
			for _, e := range page.GetEntries() {
				if !isDir(e) {
					addUp(totals, root, c.Depth, e)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		usage, err := clients.Files.GetUsage(ctx, &fsv1.GetUsageRequest{})
		if err != nil {
			return err
		}
		return c.print(env, totals, usage.GetUsage())
	})
}

// addUp counts a file for each directory above it that is shown.
func addUp(totals map[string]*total, root string, depth int, e *fsv1.FileInfo) {
	below := strings.TrimPrefix(strings.TrimPrefix(e.GetPath(), root), "/")
	names := strings.Split(below, "/")
	for i := 0; i < len(names) && i <= depth; i++ {
		dir := strings.Trim(root+"/"+strings.Join(names[:i], "/"), "/")
		if totals[dir] == nil {
			totals[dir] = &total{Path: dir}
		}
		totals[dir].Bytes += e.GetSizeBytes()
		totals[dir].Files++
	}
}

func (c *FsDu) print(env *Env, totals map[string]*total, u *fsv1.Usage) error {
	for _, dir := range slices.Sorted(maps.Keys(totals)) {
		t := totals[dir]
		if c.JSON {
			if err := env.Value(t); err != nil {
				return err
			}
			continue
		}
		env.Line("%10s  %7d  %s/", sizeText(t.Bytes), t.Files, strings.ReplaceAll(dir, "\n", `\n`))
	}
	if c.JSON {
		return env.JSON(&fsv1.GetUsageResponse{Usage: u})
	}
	env.Line("the bucket holds %s%s in %s%s", sizeText(u.GetUsedBytes()), limitText(u.GetLimitBytes(), sizeText), count(u.GetUsedFiles(), "file"), limitText(u.GetLimitFiles(), plain))
	return nil
}

func limitText(limit int64, show func(int64) string) string {
	if limit == 0 {
		return ""
	}
	return " of " + show(limit)
}
