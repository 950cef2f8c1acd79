// Package localstore keeps snapshots in a directory. Each bucket has a directory of its own:
//
//	<bucket key>/!head.json          the head, replaced by rename under a lock
//	<bucket key>/!manifests/<id>     immutable
//	<bucket key>/!blobs/<sha256>     immutable
//
// Names that begin with "!" cannot be part of a bucket key, so a bucket never lies in another one's files.
package localstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
)

var _ sandbox.SnapshotStore = (*Store)(nil)

// Store is a directory.
type Store struct{ dir string }

// New returns the store of a directory, which is made when it is missing.
func New(dir string) (*Store, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	return &Store{dir: dir}, os.MkdirAll(dir, 0o700)
}

var idPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (s *Store) path(bucket string, parts ...string) string {
	return filepath.Join(append([]string{s.dir, filepath.FromSlash(bucket)}, parts...)...)
}

// PutManifest implements [sandbox.SnapshotStore].
func (s *Store) PutManifest(_ context.Context, m sandbox.Manifest) (string, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	id := hex.EncodeToString(sum[:])
	dir := s.path(m.Bucket, "!manifests")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", storeError(err)
	}
	return id, storeError(replace(dir, id, text))
}

// Manifest implements [sandbox.SnapshotStore].
func (s *Store) Manifest(_ context.Context, bucket, id string) (m sandbox.Manifest, err error) {
	if !idPattern.MatchString(id) {
		return m, notFound(id)
	}
	text, err := os.ReadFile(s.path(bucket, "!manifests", id))
	if errors.Is(err, fs.ErrNotExist) {
		return m, notFound(id)
	}
	if err != nil {
		return m, storeError(err)
	}
	sum := sha256.Sum256(text)
	if hex.EncodeToString(sum[:]) != id || json.Unmarshal(text, &m) != nil {
		return m, damaged("the manifest of the snapshot has other bytes than were stored")
	}
	m.ID = id
	return m, nil
}

// Manifests implements [sandbox.SnapshotStore]. A damaged one is an error: leaving it out would look as if it had never been.
func (s *Store) Manifests(ctx context.Context, bucket string) ([]sandbox.Manifest, error) {
	entries, err := os.ReadDir(s.path(bucket, "!manifests"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, storeError(err)
	}
	var out []sandbox.Manifest
	for _, e := range entries {
		if !idPattern.MatchString(e.Name()) {
			continue
		}
		m, err := s.Manifest(ctx, bucket, e.Name())
		if err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b sandbox.Manifest) int { return b.Created.Compare(a.Created) })
	return out, nil
}

// Delete implements [sandbox.SnapshotStore]. The manifest goes first: after a crash there is at worst a blob too many.
func (s *Store) Delete(ctx context.Context, bucket, id string) error {
	unlock, err := s.lock(bucket)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := s.Manifest(ctx, bucket, id)
	if errors.Is(err, errdefs.ErrNotFound) {
		return nil
	}
	if err := os.Remove(s.path(bucket, "!manifests", id)); err != nil {
		return storeError(err)
	}
	if err != nil || m.Archive.SHA256 == "" {
		return nil // a damaged manifest does not say which blobs are its own
	}
	rest, err := s.Manifests(ctx, bucket)
	if err != nil {
		return err
	}
	for _, other := range rest {
		if other.Archive.SHA256 == m.Archive.SHA256 {
			return nil
		}
	}
	if err := os.Remove(s.path(bucket, "!blobs", m.Archive.SHA256)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return storeError(err)
	}
	return nil
}

// Head implements [sandbox.SnapshotStore].
func (s *Store) Head(_ context.Context, bucket string) (h sandbox.Head, err error) {
	text, err := os.ReadFile(s.path(bucket, "!head.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, storeError(err)
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, damaged("the head of the bucket is not readable")
	}
	return h, nil
}

// SetHead implements [sandbox.SnapshotStore].
func (s *Store) SetHead(ctx context.Context, bucket string, old, head sandbox.Head) error {
	unlock, err := s.lock(bucket)
	if err != nil {
		return err
	}
	defer unlock()
	now, err := s.Head(ctx, bucket)
	if err != nil {
		return err
	}
	if now.Version != old.Version {
		return sandbox.Errorf(errdefs.ErrAborted, sandbox.ReasonFenced, "another service has changed the state of this bucket").
			With("version", fmt.Sprint(now.Version))
	}
	text, err := json.Marshal(head)
	if err != nil {
		return err
	}
	return storeError(replace(s.path(bucket), "!head.json", text))
}

// lock orders changes of one bucket between processes.
func (s *Store) lock(bucket string) (unlock func(), err error) {
	if err := os.MkdirAll(s.path(bucket), 0o700); err != nil {
		return nil, storeError(err)
	}
	f, err := os.OpenFile(s.path(bucket, "!lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, storeError(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, storeError(err)
	}
	return func() { _ = f.Close() }, nil
}

// replace writes a file beside its name and moves it there, durably.
func replace(dir, name string, text []byte) error {
	temp := filepath.Join(dir, "!"+rand.Text())
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	_, err = f.Write(text)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(os.Rename(temp, filepath.Join(dir, name)), syncDir(dir))
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func notFound(id string) error {
	return sandbox.Errorf(errdefs.ErrNotFound, sandbox.ReasonSnapshotNotFound, "no snapshot %.64q", id).With("snapshot", id)
}

func damaged(what string) error {
	return sandbox.Errorf(errdefs.ErrDataLoss, sandbox.ReasonSnapshotDamaged, "%s; restore another snapshot", what)
}

// storeError makes the failure of a disk one that a caller can act on.
func storeError(err error) error {
	var typed *errdefs.Error
	switch {
	case err == nil || errors.As(err, &typed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return errdefs.New(errdefs.ErrResourceExhausted, sandbox.Domain, sandbox.ReasonLimitReached, "the disk of the snapshot store is full: %w", err)
	}
	return errdefs.New(errdefs.ErrUnavailable, sandbox.Domain, "", "the snapshot store failed: %w", err)
}
