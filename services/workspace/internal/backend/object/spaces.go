package object

import (
	"context"
	"slices"
	"strings"

	"gocloud.dev/blob"

	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Spaces implements [manifest.Driver]. The list is read from the beginning of the prefix, 1,000 names a request, and sorted here: not every provider gives its order.
func (d *driver) Spaces(ctx context.Context, prefix, after files.Space, limit int) (out []files.Space, more bool, err error) {
	begin := escape(string(prefix))
	// Escaping looks at the character before: what follows the prefix does not change it. A long name stands in the index shortened.
	begin = begin[:min(len(begin), maxName)]
	err = d.list(ctx, spacesPrefix+begin, func(_ string, o *blob.ListObject) (bool, error) {
		name, err := d.nameOf(ctx, o.Key)
		if err != nil {
			return false, err
		}
		if name <= after || !strings.HasPrefix(string(name), string(prefix)) {
			return true, nil
		}
		if out = append(out, name); len(out) > 2*limit+sweepPage {
			slices.Sort(out)
			out, more = out[:limit], true
		}
		return true, nil
	})
	slices.Sort(out)
	if len(out) > limit {
		out, more = out[:limit], true
	}
	return out, more, err
}

// nameOf is the space that an object lists: its key says it, or its content when the name is long.
func (d *driver) nameOf(ctx context.Context, key string) (files.Space, error) {
	name, ok := strings.CutSuffix(strings.TrimPrefix(key, spacesPrefix), "!")
	if space, plain := unescape(name); ok && plain {
		return space, nil
	}
	data, err := d.read(ctx, key)
	if err != nil || index(files.Space(data)) != key {
		return "", err // no object of ours
	}
	return files.Space(data), nil
}

// unescape is the space of a name that escape has left as it is.
func unescape(name string) (files.Space, bool) {
	return files.Space(name), !strings.ContainsAny(name, "%!")
}
