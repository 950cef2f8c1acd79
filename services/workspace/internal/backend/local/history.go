package local

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// Previous revisions are files of the directory history, outside of every bucket. A file is linked there when it is replaced or removed, under the id of its content in the
// index. Until then, the revisions that appends and moves have left are a beginning of the file that goes on.

const (
	// keptMark begins the Ref of a node that is a previous revision. No signature begins with it.
	keptMark = "kept-"
	// historyShard is how many files a directory of the history holds.
	historyShard = 1024
	// clearShards bounds how many of those directories are looked through for what nothing refers to, at a start.
	clearShards = 64
)

func (s *Store) historyFile(content int64) string {
	return filepath.Join(s.history, strconv.FormatInt(content/historyShard, 10), strconv.FormatInt(content, 10))
}

// isKept says whether the content of a file that was replaced is in the history.
func (s *Store) isKept(content int64) bool {
	_, err := os.Lstat(s.historyFile(content))
	return err == nil
}

// dropKept removes contents that nothing refers to any more. What stays behind is cleared at a start.
func (s *Store) dropKept(contents []int64) {
	for _, id := range contents {
		_ = os.Remove(s.historyFile(id))
	}
}

// keep takes the file of a step that is about to go into the history. A file that is another one by now was kept before, or changed outside.
func (a *applier) keep(st step) error {
	if st.Keep == 0 {
		return nil
	}
	name := st.Path.String()
	info, err := a.root.Lstat(name)
	if isGone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if another(info, st.KeepInode) {
		return nil
	}
	regular := info.Mode().IsRegular()
	target := a.store.historyFile(st.Keep)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	a.syncs[filepath.Dir(target)] = true
	// A file with other names may be written through those: then its bytes are copied, as are those behind a link.
	if regular && links(info) == 1 {
		dir, err := a.root.Open(onDisk(st.Path.Parent()))
		if err != nil {
			return err
		}
		err = errors.Join(unix.Linkat(int(dir.Fd()), st.Path.Name(), unix.AT_FDCWD, target, 0), dir.Close())
		if err == nil || errors.Is(err, fs.ErrExist) {
			return nil
		}
		if !errors.Is(err, syscall.EXDEV) && !errors.Is(err, syscall.EPERM) && !errors.Is(err, syscall.EMLINK) && !errors.Is(err, syscall.EOPNOTSUPP) {
			return err
		}
	}
	if _, err := os.Lstat(target); err == nil {
		return nil
	}
	return a.copyKept(name, target)
}

func (a *applier) copyKept(name, target string) error {
	in, err := a.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	temp := target + ".part"
	out, err := os.OpenFile(temp, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return err
	}
	return os.Rename(temp, target)
}

func links(info fs.FileInfo) uint64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(s.Nlink)
	}
	return 0
}

// Revisions implements [files.Own].
func (t *tree) Revisions(ctx context.Context, p fsops.Path, after string, limit int) ([]files.Node, bool, error) {
	nodes, more, err := t.store.index.Space(t.space).Revisions(ctx, p, after, limit)
	for i := range nodes {
		nodes[i].Ref = keptMark + nodes[i].Ref
	}
	return nodes, more, err
}

// Revision implements [files.Own].
func (t *tree) Revision(ctx context.Context, p fsops.Path, revision string) (files.Node, error) {
	nodes, err := t.Get(ctx, p)
	if err != nil || nodes[0].Revision == revision || revision == "" {
		return nodes[0], err
	}
	n, err := t.store.index.Space(t.space).Revision(ctx, p, revision)
	if err != nil || n.Replaced.IsZero() {
		return files.Node{}, err // the index may know a revision that was since changed outside
	}
	n.Ref = keptMark + n.Ref
	return n, nil
}

// openKept opens a previous revision. ErrChanged when its bytes are gone: the file that began with them was changed outside.
func (t *tree) openKept(ctx context.Context, n files.Node) (files.Content, error) {
	id, err := strconv.ParseInt(strings.TrimPrefix(n.Ref, keptMark), 10, 64)
	if err != nil {
		return nil, files.ErrChanged
	}
	for range 2 { // it may move into the history just now
		f, err := os.Open(t.store.historyFile(id))
		if errors.Is(err, fs.ErrNotExist) {
			f, err = t.openLive(ctx, id)
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, diskError(err)
		}
		if err := verify(ctx, f, n); err != nil {
			f.Close()
			return nil, err
		}
		return prefix{File: f, size: n.Size}, nil
	}
	return nil, files.ErrChanged
}

// openLive opens the file that goes on with a content.
func (t *tree) openLive(ctx context.Context, content int64) (*os.File, error) {
	raw, err := t.store.index.Detail(ctx, content)
	if err != nil {
		return nil, err
	}
	var d detail
	if json.Unmarshal(raw, &d) != nil || d.Path == "" {
		return nil, fs.ErrNotExist
	}
	root, err := t.store.root(t.space, false)
	if err != nil || root == nil {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	defer root.Close()
	return root.OpenFile(d.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// verify checks that a file begins with a revision.
func verify(ctx context.Context, f *os.File, n files.Node) error {
	info, err := f.Stat()
	if err != nil {
		return diskError(err)
	}
	if !info.Mode().IsRegular() || info.Size() < n.Size {
		return files.ErrChanged
	}
	h := sha256.New()
	if _, err := io.Copy(h, files.NewReader(ctx, prefix{File: f, size: n.Size}, 0)); err != nil {
		return err
	}
	if hex.EncodeToString(h.Sum(nil)) != n.SHA256 {
		return files.ErrChanged
	}
	return nil
}

// prefix is the beginning of a file.
type prefix struct {
	*os.File
	size int64
}

// Size implements [files.Content].
func (p prefix) Size() int64 { return p.size }

// loadKept loads the previous revisions among nodes into out, and returns the other nodes with their places.
func (t *tree) loadKept(ctx context.Context, nodes []files.Node, out [][]byte) (others []files.Node, at []int, err error) {
	for i, n := range nodes {
		if !strings.HasPrefix(n.Ref, keptMark) {
			others, at = append(others, n), append(at, i)
			continue
		}
		c, err := t.openKept(ctx, n)
		if errors.Is(err, files.ErrChanged) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		out[i] = make([]byte, n.Size)
		_, err = io.ReadFull(files.NewReader(ctx, c, 0), out[i])
		if err := errors.Join(err, c.Close()); err != nil {
			return nil, nil, diskError(err)
		}
	}
	return others, at, nil
}

// clearHistory removes what nothing refers to: what a crash left behind.
func (s *Store) clearHistory(ctx context.Context) error {
	shards, err := os.ReadDir(s.history)
	if err != nil {
		return err
	}
	if len(shards) > clearShards {
		from := int(s.now().UnixNano() % int64(len(shards)))
		shards = append(shards, shards...)[from : from+clearShards]
	}
	for _, shard := range shards {
		dir := filepath.Join(s.history, shard.Name())
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		var ids []int64
		for _, e := range entries {
			id, err := strconv.ParseInt(e.Name(), 10, 64)
			if err != nil {
				if err := os.Remove(filepath.Join(dir, e.Name())); err != nil { // an unfinished copy
					return err
				}
				continue
			}
			ids = append(ids, id)
		}
		known, err := s.index.Contents(ctx, ids)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !known[id] {
				s.dropKept([]int64{id})
			}
		}
		if len(known) == 0 {
			_ = os.Remove(dir) // unless something came since
		}
	}
	return nil
}
