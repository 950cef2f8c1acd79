package journalsqlite

import (
	"context"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// PutBlob implements [journal.Blobs].
func (s *Store) PutBlob(ctx context.Context, tenant string, data []byte) (journal.Sum, error) {
	if err := identity.ValidateID("tenant", tenant); err != nil {
		return journal.Sum{}, err
	}
	if len(data) > journal.MaxBlobBytes {
		return journal.Sum{}, journal.TooLarge("the blob", journal.MaxBlobBytes, int64(len(data)))
	}
	sum := journal.HashOf(data)
	return sum, s.write(ctx, func(t *tx) error {
		_, err := t.putBlob(tenant, sum, data, true)
		return err
	})
}

// putBlob keeps bytes and returns their row. loose says that the caller will name them later.
func (t *tx) putBlob(tenant string, sum journal.Sum, data []byte, loose bool) (int64, error) {
	id, err := t.blobID(tenant, sum)
	if err != nil {
		return 0, err
	}
	if id != 0 {
		if loose {
			_, err = t.exec("UPDATE blobs SET loose = 1 WHERE id = ?", id)
		}
		return id, err
	}
	id, err = t.insert("INSERT INTO blobs (tenant, hash, size, loose) VALUES (?, ?, ?, ?)", tenant, sum[:], len(data), loose)
	if err != nil {
		return 0, err
	}
	if data == nil {
		data = []byte{}
	}
	_, err = t.exec("INSERT INTO blob_data (id, data) VALUES (?, ?)", id, data)
	return id, err
}

// blobID returns the row of a blob, 0 when the tenant has none of that hash.
func (s *session) blobID(tenant string, sum journal.Sum) (id int64, err error) {
	_, err = s.get("SELECT id FROM blobs WHERE tenant = ? AND hash = ?", []any{tenant, sum[:]}, &id)
	return id, err
}

// refer records that an event needs a blob.
func (t *tx) refer(event, blob int64) error {
	_, err := t.exec("INSERT OR IGNORE INTO blob_refs (event, blob) VALUES (?, ?)", event, blob)
	return err
}

// name records that the payload of an event names a blob.
func (t *tx) name(tenant string, event int64, named journal.BlobRef) error {
	blob, err := t.blobID(tenant, named.SHA256)
	if err != nil {
		return err
	}
	if blob == 0 {
		if named.Optional {
			return nil
		}
		return journal.BlobNotFound(named.SHA256)
	}
	if _, err := t.exec("UPDATE blobs SET loose = 0 WHERE id = ? AND loose = 1", blob); err != nil {
		return err
	}
	return t.refer(event, blob)
}

// forget removes the references of the events from id from through id to, and the blobs that nothing needs then. It returns how many went.
func (t *tx) forget(from, to int64) (int, error) {
	blobs, err := t.ids("SELECT DISTINCT blob FROM blob_refs WHERE event BETWEEN ? AND ?", from, to)
	if err != nil || len(blobs) == 0 {
		return 0, err
	}
	if _, err := t.exec("DELETE FROM blob_refs WHERE event BETWEEN ? AND ?", from, to); err != nil {
		return 0, err
	}
	gone := 0
	for _, id := range blobs {
		n, err := t.exec("DELETE FROM blobs WHERE id = ?1 AND loose = 0 AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = ?1)", id)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			continue
		}
		if _, err := t.exec("DELETE FROM blob_data WHERE id = ?", id); err != nil {
			return 0, err
		}
		gone++
	}
	return gone, nil
}

// GetBlob implements [journal.Blobs].
func (s *Store) GetBlob(ctx context.Context, tenant string, sum journal.Sum) ([]byte, error) {
	var data []byte
	err := s.read(ctx, func(r *session) error { return r.blob(tenant, sum, &data) })
	if err != nil {
		return nil, err
	}
	if journal.HashOf(data) != sum {
		return nil, journal.Damaged(0, "the blob does not have its hash")
	}
	return data, nil
}

// blob reads the bytes of a blob.
func (s *session) blob(tenant string, sum journal.Sum, into *[]byte) error {
	found, err := s.get("SELECT d.data FROM blobs b JOIN blob_data d ON d.id = b.id WHERE b.tenant = ? AND b.hash = ?", []any{tenant, sum[:]}, into)
	if err == nil && !found {
		err = journal.BlobNotFound(sum)
	}
	return err
}
