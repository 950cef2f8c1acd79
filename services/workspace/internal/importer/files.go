package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// files takes over the files of an owner.
func (w *work) files(ctx context.Context, o *owner) error {
	entries, err := w.entriesOf(o, ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		switch {
		case name == agentsDir:
			err = w.agents(ctx, o)
		case o.prefix == "" && (!runtime[name] || o.inPlace && o.target.Mounted):
			continue // of others, of the template, or in its place already
		case o.prefix != "" && housekeeping[name] != "":
			w.report.leave(o.shown(name), housekeeping[name])
		default:
			err = w.tree(ctx, o, e, name, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// agents goes through the directory of each agent.
func (w *work) agents(ctx context.Context, o *owner) error {
	entries, err := w.entriesOf(o, agentsDir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		dir := path.Join(agentsDir, e.Name())
		if !e.IsDir() {
			w.report.leave(o.shown(dir), "it belongs to no agent")
			continue
		}
		if e.Name() != o.agent {
			w.report.leave(o.shown(dir), alsoAgent(e.Name()))
			continue
		}
		below, err := w.entriesOf(o, dir)
		if err != nil {
			return err
		}
		for _, b := range below {
			at := path.Join(dir, b.Name())
			switch b.Name() {
			case "sessions": // threads
			case "memory":
				err = w.tree(ctx, o, b, at, "memory")
			case "tasks":
				w.report.leave(o.shown(at), "records of tasks: the task service keeps its own, and the runs of these are gone")
			case "workspace":
				w.report.leave(o.shown(at), "the workspace of an isolated subagent")
			case "context":
				w.report.leave(o.shown(at), "snapshots of conversations, which the logs of the sessions hold")
			default:
				w.report.leave(o.shown(at), "a name without a meaning")
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// tree takes over a file, or a directory with all below it, from a path of the workspace to a path of the bucket.
func (w *work) tree(ctx context.Context, o *owner, e fs.DirEntry, from, to string) error {
	if err := w.goOn(ctx); err != nil {
		return err
	}
	switch {
	case e.IsDir() && len(from) > fsops.MaxPathBytes:
		w.report.leave(o.shown(from), "its path is too long")
		return nil
	case e.IsDir():
		entries, err := w.entriesOf(o, from)
		if err != nil {
			return err
		}
		for _, below := range entries {
			if err := w.tree(ctx, o, below, path.Join(from, below.Name()), path.Join(to, below.Name())); err != nil {
				return err
			}
		}
		return nil
	case e.Type()&fs.ModeSymlink != 0:
		w.report.leave(o.shown(from), "a link")
		return nil
	case !e.Type().IsRegular():
		w.report.leave(o.shown(from), "no regular file")
		return nil
	case to == oldState: // watermark
		return nil
	case strings.HasPrefix(to, "memory/."):
		w.report.leave(o.shown(from), "records of a memory service, which are not taken from others")
		return nil
	}
	reason, err := w.file(ctx, o, from, to)
	if err != nil && tolerable(err) {
		reason, err = why(err), nil
	}
	if reason != "" {
		w.report.leave(o.shown(from), reason)
	}
	return err
}

// file takes one file over. A reason says why it was left out.
func (w *work) file(ctx context.Context, o *owner, from, to string) (reason string, err error) {
	p, err := fsops.ParseFilePath(to)
	if err != nil {
		return "", err
	}
	f, info, err := open(o.root, from)
	if err != nil {
		return "it can't be read", nil
	}
	defer f.Close()
	if w.MaxFileBytes > 0 && info.Size() > w.MaxFileBytes {
		return "", fsops.ErrTooLarge(w.MaxFileBytes, info.Size())
	}
	sum, size, err := sumOf(ctx, f)
	if err != nil {
		return "it can't be read", ctx.Err()
	}
	known := ledger{size, sum, info.ModTime()}
	if static[strings.SplitN(to, "/", 2)[0]] && o.seesFromTemplate(ctx, p, sum) {
		return "", nil
	}
	own, err := o.target.View.Only(files.LayerBucket).Stat(ctx, p)
	switch {
	case err == nil && own.Kind == files.KindFile && own.SHA256 == sum:
		w.report.UnchangedFiles++
		o.ledgers[to] = known
		return "", nil
	case err == nil:
		return "the bucket has another one there already", nil
	case errdefs.ReasonOf(err) != fsops.ReasonPathNotFound:
		return "", err
	}
	if !w.req.DryRun {
		return "", w.write(ctx, o, f, p, known)
	}
	w.report.Files++
	o.ledgers[to] = known
	return "", nil
}

// seesFromTemplate says whether the user sees the file from the template's directory for the user already.
func (o *owner) seesFromTemplate(ctx context.Context, p fsops.Path, sum string) bool {
	e, err := o.target.View.Only(files.LayerUser).Stat(ctx, p)
	return o.prefix != "" && err == nil && e.SHA256 == sum
}

// write puts a file into the bucket, where the bucket has none.
func (w *work) write(ctx context.Context, o *owner, f *os.File, p fsops.Path, known ledger) error {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err
	}
	staged, err := w.Store.Stage(ctx, f, w.MaxFileBytes)
	if err != nil {
		return err
	}
	return w.put(ctx, o, p, staged, known)
}

// put writes staged content under an effect that follows from owner, path and content: a repeat after the user has deleted the file does not bring it back.
func (w *work) put(ctx context.Context, o *owner, p fsops.Path, staged files.Staged, known ledger) error {
	sum := staged.SHA256()
	id := hexOf("file", string(o.target.View.Space()), p.Key(), sum)
	write := files.Write{Path: p, Mode: files.Create}
	if seen, err := o.target.View.Stat(ctx, p); err == nil && seen.Kind == files.KindFile {
		write.Mode, write.Revision = files.IfRevision, seen.Revision // of a lower layer, which the owner's file stands above
	}
	if _, err := o.target.View.Write(ctx, files.Call{Author: w.req.Author, Effect: files.Effect{ID: "import/" + id, Hash: id}}, write, staged); err != nil {
		return err
	}
	now, err := o.target.View.Only(files.LayerBucket).Stat(ctx, p)
	if err != nil || now.SHA256 != sum {
		w.report.UnchangedFiles++ // written by an earlier import, and deleted since
		return nil
	}
	w.report.Files++
	if sum == known.sum {
		o.ledgers[p.String()] = known
	}
	return nil
}

// hexOf hashes parts so that no two lists give the same.
func hexOf(parts ...string) string {
	h := sha256.New()
	for _, part := range parts {
		inner := sha256.Sum256([]byte(part))
		h.Write(inner[:])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// open opens a regular file, without waiting where it turns out to be a pipe.
func open(root *os.Root, name string) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrInvalid
	}
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// sumOf hashes what a reader gives, and stops when the context ends.
func sumOf(ctx context.Context, r io.Reader) (sum string, size int64, err error) {
	h := sha256.New()
	for {
		n, err := io.CopyN(h, r, 4<<20)
		size += n
		if err == io.EOF {
			return hex.EncodeToString(h.Sum(nil)), size, nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return "", size, err
		}
	}
}
