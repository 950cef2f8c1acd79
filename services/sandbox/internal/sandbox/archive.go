package sandbox

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/gantry-agents/gantry/libs/errdefs"
)

// Bounds of a snapshot.
const (
	maxArchiveEntries = 200_000
	maxArchiveBytes   = 4 << 30
	maxSkipped        = 20
)

// archiver writes one archive.
type archiver struct {
	tree    Tree
	tar     *tar.Writer
	entries []ManifestEntry
	skipped []string
	bytes   int64
}

// takeArchive stores everything in a workspace but what is projected into it. The caller has frozen the commands.
func takeArchive(ctx context.Context, tree Tree, store SnapshotStore, bucket string) (m Manifest, err error) {
	pr, pw := io.Pipe()
	a := &archiver{tree: tree}
	done := make(chan error, 1)
	go func() {
		err := a.run(ctx, pw)
		_ = pw.CloseWithError(err)
		done <- err
	}()
	blob, err := store.PutBlob(ctx, bucket, pr)
	_ = pr.CloseWithError(io.ErrClosedPipe) // if the store gave up, the writer must not wait
	if werr := <-done; werr != nil && !errors.Is(werr, io.ErrClosedPipe) {
		err = werr
	}
	if err != nil {
		return m, err
	}
	return Manifest{Bucket: bucket, Archive: blob, Entries: a.entries, Skipped: a.skipped}, nil
}

func (a *archiver) run(ctx context.Context, w io.Writer) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	a.tar = tar.NewWriter(z)
	if err := a.dir(ctx, ""); err != nil {
		_ = z.Close()
		return err
	}
	return errors.Join(a.tar.Close(), z.Close())
}

func (a *archiver) dir(ctx context.Context, path string) error {
	list, err := a.tree.ReadDir(ctx, path, "", 0)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.ReadOnly {
			continue // projected: it belongs to the workspace service
		}
		if len(a.entries) >= maxArchiveEntries {
			return Errorf(errdefs.ErrResourceExhausted, ReasonSnapshotTooLarge, "the workspace has more than %d entries", maxArchiveEntries)
		}
		if err := a.add(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

// add writes one entry, and for a directory what is in it.
func (a *archiver) add(ctx context.Context, e Entry) error {
	out := ManifestEntry{Path: []byte(e.Path), Mode: uint32(e.Mode.Perm()), Size: e.Size}
	h := &tar.Header{Name: e.Path, Mode: int64(e.Mode.Perm()), ModTime: e.ModTime, Format: tar.FormatPAX}
	switch e.Kind {
	case fs.ModeDir:
		out.Kind, h.Typeflag = "dir", tar.TypeDir
	case fs.ModeSymlink:
		out.Kind, h.Typeflag, out.Link, h.Linkname, out.Size = "link", tar.TypeSymlink, e.Link, e.Link, 0
	case 0:
		out.Kind, h.Typeflag = "file", tar.TypeReg
		return a.file(ctx, e, h, out)
	default:
		a.skip(e.Path, "neither a file, a directory nor a link")
		return nil
	}
	if err := a.tar.WriteHeader(h); err != nil {
		a.skip(e.Path, "its name does not fit into an archive")
		return nil
	}
	a.entries = append(a.entries, out)
	if e.Kind == fs.ModeDir {
		return a.dir(ctx, e.Path)
	}
	return nil
}

func (a *archiver) file(ctx context.Context, e Entry, h *tar.Header, out ManifestEntry) error {
	f, err := a.tree.Open(ctx, e.Path)
	if err != nil {
		return fmt.Errorf("%q: %w", e.Path, err)
	}
	defer f.Close()
	// The size of the open file is the one that counts: the commands stand still, the listing may be older.
	st, err := f.Stat()
	if err != nil {
		return err
	}
	out.Size, h.Size = st.Size, st.Size
	if a.bytes += st.Size; a.bytes > maxArchiveBytes {
		return Errorf(errdefs.ErrResourceExhausted, ReasonSnapshotTooLarge, "the workspace has more than %d bytes", int64(maxArchiveBytes))
	}
	if err := a.tar.WriteHeader(h); err != nil {
		a.skip(e.Path, "its name does not fit into an archive")
		return nil
	}
	sum := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(a.tar, sum), f, st.Size); err != nil {
		return fmt.Errorf("%q changed while it was read: %w", e.Path, err)
	}
	out.SHA256 = hex.EncodeToString(sum.Sum(nil))
	a.entries = append(a.entries, out)
	return nil
}

func (a *archiver) skip(path, why string) {
	if len(a.skipped) < maxSkipped {
		a.skipped = append(a.skipped, fmt.Sprintf("%q: %s", path, why))
	}
}

// readArchive walks an archive beside its manifest and proves that they agree. visit gets each entry with its content.
func readArchive(ctx context.Context, store SnapshotStore, m Manifest, visit func(ManifestEntry, time.Time, io.Reader) error) error {
	blob, err := store.OpenBlob(ctx, m.Bucket, m.Archive.SHA256)
	if err != nil {
		return err
	}
	defer blob.Close()
	z, err := zstd.NewReader(blob, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(64<<20))
	if err != nil {
		return archiveDamaged(err)
	}
	defer z.Close()
	r := tar.NewReader(z)
	for _, want := range m.Entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := r.Next()
		if err != nil {
			return archiveDamaged(err)
		}
		if h.Name != string(want.Path) && h.Name != string(want.Path)+"/" || h.Size != want.Size || h.Linkname != want.Link {
			return archiveDamaged(nil)
		}
		sum := sha256.New()
		if err := visit(want, h.ModTime, io.TeeReader(r, sum)); err != nil {
			return err
		}
		if want.Kind == "file" && hex.EncodeToString(sum.Sum(nil)) != want.SHA256 {
			return archiveDamaged(nil)
		}
	}
	if _, err := r.Next(); !errors.Is(err, io.EOF) {
		return archiveDamaged(err)
	}
	// To the end, where the store checks the hash of the whole.
	if _, err := io.Copy(io.Discard, z); err != nil {
		return archiveDamaged(err)
	}
	if _, err := io.Copy(io.Discard, blob); err != nil {
		return archiveDamaged(err)
	}
	return nil
}

// archiveDamaged keeps typed errors, such as one of the store, and makes everything else the one error of a bad archive.
func archiveDamaged(err error) error {
	var typed *errdefs.Error
	if errors.As(err, &typed) {
		return err
	}
	return errdefs.New(errdefs.ErrDataLoss, Domain, ReasonSnapshotDamaged, "the archive of the snapshot is not what its manifest says: %w", err)
}

// verifyArchive reads an archive back without writing it anywhere.
func verifyArchive(ctx context.Context, store SnapshotStore, m Manifest) error {
	return readArchive(ctx, store, m, func(_ ManifestEntry, _ time.Time, r io.Reader) error {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return archiveDamaged(err)
		}
		return nil
	})
}

// restoreArchive fills an empty workspace. After an error the workspace holds a part of the snapshot and must be thrown away.
func restoreArchive(ctx context.Context, store SnapshotStore, m Manifest, tree Tree) error {
	type dir struct {
		path string
		mode fs.FileMode
		time time.Time
	}
	var dirs []dir
	err := readArchive(ctx, store, m, func(e ManifestEntry, t time.Time, r io.Reader) error {
		path, mode := string(e.Path), fs.FileMode(e.Mode).Perm()
		switch e.Kind {
		case "dir":
			// Its mode and time come last: a directory may be read-only, and what is put into it changes its time.
			dirs = append(dirs, dir{path, mode, t})
			return tree.Mkdir(ctx, path)
		case "link":
			return tree.Symlink(ctx, e.Link, path)
		}
		// Mode 0 would mean "default" to Write, and an unreadable file cannot be given a time.
		if _, err := tree.Write(ctx, path, r, WriteOptions{CreateOnly: true, Mode: mode | 0o600}); err != nil {
			return err
		}
		return tree.SetMode(ctx, path, mode, t)
	})
	if err != nil {
		return err
	}
	for _, d := range slices.Backward(dirs) {
		if err := tree.SetMode(ctx, d.path, d.mode, d.time); err != nil {
			return err
		}
	}
	return nil
}
