package journalsqlite_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/journalsqlite"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

var damaged = identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: "s"}

// filled makes a file with a thread of n events, closes it and returns its path.
func filled(t *testing.T, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "journal.db")
	s, err := journalsqlite.Open(t.Context(), journalsqlite.Config{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	writer := newWriter(t, s, damaged)
	for i := range n {
		writer.commit(t, fmt.Sprintf("payload-%04d-%s", i, strings.Repeat("x", 600)))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// scan reads the whole thread and returns the error.
func scan(t *testing.T, path string) (int, error) {
	t.Helper()
	s, err := journalsqlite.Open(t.Context(), journalsqlite.Config{Path: path})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	n := 0
	_, _, err = journal.Scan(t.Context(), s, damaged, 0, 0, nil, func(journal.Event) error { n++; return nil })
	return n, err
}

// TestZeroBlock writes 512 zero bytes over a record in the middle, at several places of it: every reader is told.
func TestZeroBlock(t *testing.T) {
	for _, offset := range []int{-64, 0, 100} {
		path := filled(t, 200)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		at := bytes.Index(data, []byte("payload-0100-"))
		if at < 0 {
			t.Fatal("the payload is not in the file")
		}
		copy(data[at+offset:at+offset+512], make([]byte, 512))
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		n, err := scan(t, path)
		if errdefs.ClassOf(err) != errdefs.ErrDataLoss || errdefs.ReasonOf(err) != journal.ReasonJournalDamaged {
			t.Errorf("offset %d: %d events, then %v; want JOURNAL_DAMAGED", offset, n, err)
		}
	}
}

// TestTampering changes rows behind the store's back.
func TestTampering(t *testing.T) {
	for name, statement := range map[string]string{
		"payload":         "UPDATE events SET payload = x'00' WHERE id & 4294967295 = 100",
		"type":            "UPDATE events SET type = 'other' WHERE id & 4294967295 = 100",
		"time":            "UPDATE events SET time = time + 1 WHERE id & 4294967295 = 100",
		"checksum":        "UPDATE events SET sum = zeroblob(32) WHERE id & 4294967295 = 100",
		"gone":            "DELETE FROM events WHERE id & 4294967295 = 100",
		"end gone":        "DELETE FROM events WHERE id & 4294967295 > 190",
		"head moved back": "UPDATE threads SET seq = 190",
		"order":           "UPDATE events SET id = CASE id & 4294967295 WHEN 50 THEN id + 1000000 ELSE id END",
		"redacted hash":   "UPDATE events SET hash = zeroblob(32), redacted = 1, payload = NULL WHERE id & 4294967295 = 100",
	} {
		t.Run(name, func(t *testing.T) {
			path := filled(t, 200)
			db, err := sql.Open("sqlite", path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := db.Exec(statement); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			n, err := scan(t, path)
			if errdefs.ReasonOf(err) != journal.ReasonJournalDamaged {
				t.Errorf("%d events, then %v; want JOURNAL_DAMAGED", n, err)
			}
		})
	}
}

// TestRemovedBytesAreGone looks for redacted and deleted text in the files of the open store.
func TestRemovedBytesAreGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.db")
	s := open(t, path, nil)
	w := newWriter(t, s, damaged)
	w.commit(t, "badge 4471 of ana")
	w.commit(t, "keep this")
	big := "badge 4471 in a blob " + strings.Repeat("x", journal.InlinePayloadBytes)
	w.commit(t, big)
	if _, _, err := s.Post(t.Context(), damaged, journal.Mail{ID: "m", Kind: "input", Payload: []byte("badge 4471 by mail")}); err != nil {
		t.Fatal(err)
	}
	b := w.batch("took the mail")
	b.Consume = []string{"m"}
	if _, err := s.Commit(t.Context(), damaged, b); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Redact(t.Context(), damaged, []int64{1, 3}, ""); err != nil {
		t.Fatal(err)
	}
	look := func(text string) (found bool) {
		for _, name := range []string{path, path + "-wal"} {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found = found || bytes.Contains(data, []byte(text))
		}
		return found
	}
	if look("badge 4471") || !look("keep this") {
		t.Errorf("after Redact: badge found %v, kept text found %v", look("badge 4471"), look("keep this"))
	}
	if _, err := s.Delete(t.Context(), damaged); err != nil {
		t.Fatal(err)
	}
	if look("keep this") {
		t.Error("after Delete the text is still in the file")
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	text := filepath.Join(dir, "text.db")
	if err := os.WriteFile(text, bytes.Repeat([]byte("this is no database "), 500), 0o600); err != nil {
		t.Fatal(err)
	}
	newer := filled(t, 1)
	db, err := sql.Open("sqlite", newer)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("PRAGMA user_version = 99"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for path, class := range map[string]error{
		text: errdefs.ErrDataLoss, newer: errdefs.ErrFailedPrecondition, dir: errdefs.ErrUnavailable,
	} {
		s, err := journalsqlite.Open(t.Context(), journalsqlite.Config{Path: path})
		if err == nil {
			_ = s.Close()
		}
		if errdefs.ClassOf(err) != class {
			t.Errorf("Open(%s) = %v, want class %v", filepath.Base(path), err, class)
		}
	}
}
