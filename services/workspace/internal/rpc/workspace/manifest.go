package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

const (
	maxManifest = 20_000
	// maxManifestBytes bounds the paths, so that the answer fits a message.
	maxManifestBytes = 8 << 20
)

var (
	staticAssets = []string{"/AGENTS.md", "/tools.json", "/knowledge/", "/skills/", "/subagents/"}
	runtimePaths = []string{"/MEMORY.md", "/memory/", "/plans/", "/large_tool_results/", "/agents/"}
)

// GetManifest implements the service.
func (s *Server) GetManifest(ctx context.Context, req *workspacev1.GetManifestRequest) (*workspacev1.GetManifestResponse, error) {
	c, err := s.callers.Open(ctx)
	if err != nil {
		return nil, err
	}
	patterns := slices.Concat(staticAssets, c.Template.Include(), req.GetInclude())
	if req.GetIncludeRuntime() {
		patterns = append(patterns, runtimePaths...)
	}
	out := &workspacev1.GetManifestResponse{}
	found := map[string]files.Entry{}
	for _, pattern := range patterns {
		glob, err := fsops.CompileGlob(pattern)
		if err != nil {
			return nil, err
		}
		search := files.Glob{Pattern: glob, Text: pattern, Ignored: true, Allowed: c.Allowed()}
		for token := ""; ; {
			page, err := c.View.Glob(ctx, search, fsops.MaxPageSize, token)
			if err != nil {
				return nil, err
			}
			for _, e := range page.Entries {
				found[e.Path.Key()] = e
			}
			if len(found) > maxManifest {
				return nil, errdefs.New(errdefs.ErrResourceExhausted, fsops.Domain, fsops.ReasonTooLarge, "a projection holds at most %d files", maxManifest)
			}
			out.Warnings = append(out.Warnings, page.Warnings...)
			if token = page.Next; token == "" {
				break
			}
		}
	}
	keys := make([]string, 0, len(found))
	for key := range found {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	sum, bytes := sha256.New(), 0
	for _, key := range keys {
		if bytes += len(key); bytes > maxManifestBytes {
			return nil, fsops.ErrTooLarge(maxManifestBytes, int64(bytes))
		}
		e, err := c.View.Summed(ctx, found[key])
		if err != nil {
			if ctx.Err() != nil {
				return nil, ctx.Err()
			}
			path, _ := fsops.Text(key)
			out.Warnings = append(out.Warnings, path+": can't be read")
			continue
		}
		fmt.Fprintf(sum, "%q %s %o %d\n", e.Path.String(), e.SHA256, e.Mode, e.Layer)
		out.Entries = append(out.Entries, entryOf(e))
	}
	out.Fingerprint = hex.EncodeToString(sum.Sum(nil))
	return out, nil
}
