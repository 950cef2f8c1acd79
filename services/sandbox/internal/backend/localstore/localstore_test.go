package localstore

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox"
	"github.com/gantry-agents/gantry/services/sandbox/internal/sandbox/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, func(tb testing.TB) sandbox.SnapshotStore {
		s, err := New(tb.TempDir())
		if err != nil {
			tb.Fatal(err)
		}
		return s
	})
}

func TestDamageIsFound(t *testing.T) {
	dir := t.TempDir()
	s, err := New(dir)
	if err != nil {
		t.Fatal(err)
	}
	const bucket = "default/user/a/b"
	blob, id := storetest.Put(t, s, bucket, "hello world")
	for _, p := range []string{"!blobs/" + blob.SHA256, "!manifests/" + id} {
		full := filepath.Join(dir, bucket, p)
		text, err := os.ReadFile(full)
		if err != nil {
			t.Fatal(err)
		}
		text[3] ^= 1
		if err := os.WriteFile(full, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.OpenBlob(t.Context(), bucket, blob.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.ReadAll(r); errdefs.ReasonOf(err) != sandbox.ReasonSnapshotDamaged {
		t.Errorf("blob: %v", err)
	}
	if _, err := s.Manifest(t.Context(), bucket, id); errdefs.ReasonOf(err) != sandbox.ReasonSnapshotDamaged {
		t.Errorf("manifest: %v", err)
	}
}
