package journalsql

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
	return sum, s.db.Write(ctx, func(t *Tx) error {
		_, err := t.putBlob(tenant, sum, data, true)
		return err
	})
}

// putBlob keeps bytes and returns their row. loose says that the caller will name them later.
func (t *Tx) putBlob(tenant string, sum journal.Sum, data []byte, loose bool) (int64, error) {
	id, err := t.blobID(tenant, sum)
	if err != nil {
		return 0, err
	}
	if id != 0 {
		if loose {
			_, err = t.Exec("UPDATE blobs SET loose = 1 WHERE id = ?", id)
		}
		return id, err
	}
	id, err = t.Insert("INSERT INTO blobs (tenant, hash, size, loose) VALUES (?, ?, ?, ?)", tenant, sum[:], len(data), loose)
	if err != nil {
		return 0, err
	}
	if data == nil {
		data = []byte{}
	}
	return id, t.Do("INSERT INTO blob_data (id, data) VALUES (?, ?)", id, data)
}

// blobID returns the row of a blob, 0 when the tenant has none of that hash, and keeps it there.
func (t *Tx) blobID(tenant string, sum journal.Sum) (id int64, err error) {
	_, err = t.Get("SELECT id FROM blobs WHERE tenant = ? AND hash = ?"+t.Keep, []any{tenant, sum[:]}, &id)
	return id, err
}

// refer records that an event needs a blob.
func (t *Tx) refer(event, blob int64) error {
	return t.Do("INSERT INTO blob_refs (event, blob) VALUES (?, ?) ON CONFLICT DO NOTHING", event, blob)
}

// name records that the payload of an event names a blob.
func (t *Tx) name(tenant string, event int64, named journal.BlobRef) error {
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
	if err := t.Do("UPDATE blobs SET loose = 0 WHERE id = ? AND loose = 1", blob); err != nil {
		return err
	}
	return t.refer(event, blob)
}

// forget removes the references of the events from id from through id to, and the blobs that nothing needs then. It returns how many went.
func (t *Tx) forget(from, to int64) (int, error) {
	blobs, err := t.ids("SELECT DISTINCT blob FROM blob_refs WHERE event BETWEEN ? AND ?", from, to)
	if err != nil || len(blobs) == 0 {
		return 0, err
	}
	if err := t.Do("DELETE FROM blob_refs WHERE event BETWEEN ? AND ?", from, to); err != nil {
		return 0, err
	}
	gone := 0
	for _, id := range blobs {
		if t.Lock != "" {
			// Whoever is about to name it must be seen by the statement below.
			if err := t.Do("SELECT 1 FROM blobs WHERE id = ?"+t.Lock, id); err != nil {
				return 0, err
			}
		}
		n, err := t.Exec("DELETE FROM blobs WHERE id = ?1 AND loose = 0 AND NOT EXISTS (SELECT 1 FROM blob_refs WHERE blob = ?1)", id)
		if err != nil {
			return 0, err
		}
		if n == 0 {
			continue
		}
		if err := t.Do("DELETE FROM blob_data WHERE id = ?", id); err != nil {
			return 0, err
		}
		gone++
	}
	return gone, nil
}

// GetBlob implements [journal.Blobs].
func (s *Store) GetBlob(ctx context.Context, tenant string, sum journal.Sum) ([]byte, error) {
	data, err := reading(ctx, s, func(v *View) (data []byte, err error) {
		err = v.blob(tenant, sum, &data)
		return data, err
	})
	if err != nil {
		return nil, err
	}
	if journal.HashOf(data) != sum {
		return nil, journal.Damaged(0, "the blob does not have its hash")
	}
	return data, nil
}

// blob reads the bytes of a blob.
func (s *View) blob(tenant string, sum journal.Sum, into *[]byte) error {
	found, err := s.Get("SELECT d.data FROM blobs b JOIN blob_data d ON d.id = b.id WHERE b.tenant = ? AND b.hash = ?", []any{tenant, sum[:]}, into)
	if err == nil && !found {
		err = journal.BlobNotFound(sum)
	}
	return err
}
