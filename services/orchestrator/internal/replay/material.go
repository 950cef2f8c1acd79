package replay

import (
	"context"
	"errors"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/orchestrator/internal/definition"
)

// material finds the workspace files of a request in the revisions that it had: those of now that are others, or were not there. gone are the paths whose revision is not kept any more, which stay as
// they are now.
func (p *replaying) material(ctx context.Context, now []definition.Text, items []*threadv1.ContextItem) (texts map[string]definition.Text, gone map[string]bool, err error) {
	texts, gone = map[string]definition.Text{}, map[string]bool{}
	then := map[string]string{} // revision by path
	for _, i := range items {
		if i.GetSource() != "" {
			then[i.GetSource()] = i.GetRevision()
		}
	}
	for _, t := range now {
		revision, was := then[t.Path]
		switch {
		case t.Path == "" || was && revision == t.Revision:
			continue
		case !was:
			texts[t.Path] = definition.Text{Path: t.Path} // it came later
			continue
		case revision == "":
			continue // of a layer without revisions
		}
		old, err := p.Files.Read(ctx, &fsv1.ReadRequest{Path: t.Path, Revision: revision})
		if errors.Is(err, errdefs.ErrNotFound) {
			gone[t.Path] = true
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		texts[t.Path] = definition.Text{Path: t.Path, Revision: revision, Layer: t.Layer, Text: old.GetText()}
	}
	return texts, gone, nil
}
