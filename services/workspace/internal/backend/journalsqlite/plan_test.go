package journalsqlite

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// TestNoStatementScans runs one operation of each kind and then asks SQLite how it runs every statement that was used: none may walk through a whole table, so
// costs do not grow with the length of journals, the number of threads or what others have.
func TestNoStatementScans(t *testing.T) {
	ctx := context.Background()
	s, err := Open(ctx, Config{Path: filepath.Join(t.TempDir(), "journal.db"), Readers: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	useAll(t, s)
	statements := make(map[string]bool)
	r := <-s.file.readers
	for query := range r.stmts {
		statements[query] = true
	}
	s.file.readers <- r
	for query := range s.file.writer.session.stmts {
		statements[query] = true
	}
	checked := 0
	for query := range statements {
		if word, _, _ := strings.Cut(query, " "); word != "SELECT" && word != "UPDATE" && word != "DELETE" {
			continue
		}
		checked++
		rows, err := s.file.db.Query("EXPLAIN QUERY PLAN "+query, make([]any, parameters(query))...)
		if err != nil {
			t.Fatalf("%s: %v", query, err)
		}
		for rows.Next() {
			var id, parent, unused int
			var detail string
			if err := rows.Scan(&id, &parent, &unused, &detail); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(detail, "SCAN") && !strings.Contains(detail, "CONSTANT ROW") && !allowedScan(query, detail) {
				t.Errorf("%s\n\t%s", query, detail)
			}
			if strings.Contains(detail, "TEMP B-TREE") && !strings.Contains(query, "DISTINCT") {
				t.Errorf("%s\n\t%s", query, detail)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		_ = rows.Close()
	}
	if checked < 40 {
		t.Errorf("only %d statements were used; the test has lost sight of the store", checked)
	}
}

// allowedScan knows the tables that are walked through on purpose: interrupted removals, of which there are none as a rule.
func allowedScan(query, _ string) bool { return query == "SELECT thread FROM removals" }

// parameters counts the arguments of a statement.
func parameters(query string) int {
	if strings.Contains(query, "?1") {
		n := 1
		for strings.Contains(query, "?"+string(rune('1'+n))) {
			n++
		}
		return n
	}
	return strings.Count(query, "?")
}

// useAll calls everything once, so that every statement is prepared.
func useAll(t *testing.T, s *Store) {
	t.Helper()
	ctx := context.Background()
	key := identity.Thread{Tenant: "t", Agent: "a", User: "u", Session: "s"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	owner := journal.Owner{ID: "r/a"}
	for range 2 {
		_, err := s.Heartbeat(ctx, owner, false)
		must(err)
	}
	claim, err := s.Acquire(ctx, key, owner, false)
	must(err)
	sum, err := s.PutBlob(ctx, "t", []byte("blob"))
	must(err)
	_, err = s.PutBlob(ctx, "t", []byte("blob"))
	must(err)
	_, err = s.GetBlob(ctx, "t", sum)
	must(err)
	_, _, err = s.Post(ctx, key, journal.Mail{ID: "m", Kind: "k", Wake: true})
	must(err)
	event := journal.Event{Schema: 1, ID: "e", Type: "t", Payload: make([]byte, journal.InlinePayloadBytes+1), Blobs: []journal.BlobRef{{SHA256: sum}}}
	b := journal.Batch{Owner: owner.ID, Epoch: claim.Head.Epoch, ID: "b", Expected: 0, Events: []journal.Event{event}, Consume: []string{"m"},
		Mail: []journal.Mail{{ID: "n", Kind: "k", Wake: true}}, Run: journal.Run{ID: "r", State: journal.RunRunning}}
	_, err = s.Commit(ctx, key, b)
	must(err)
	b.ID, b.Consume, b.Expected, b.Release = "b2", nil, 1, true
	b.Events = []journal.Event{{Schema: 1, ID: "f", Type: "t"}, {Schema: 1, ID: "g", Type: "t"}}
	_, err = s.Commit(ctx, key, b)
	must(err)
	_, err = s.Fork(ctx, key, 2, "x")
	if err == nil {
		t.Fatal("forked inside a batch")
	}
	_, err = s.Fork(ctx, key, 3, "f")
	must(err)
	for _, session := range []string{"s", "f"} {
		read := key
		read.Session = session
		_, err = s.Read(ctx, read, journal.ReadRequest{After: 1})
		must(err)
		_, err = s.Read(ctx, read, journal.ReadRequest{})
		must(err)
		_, err = s.ListMail(ctx, read, 10, true)
		must(err)
		must(s.Await(ctx, read, 0))
	}
	u := journal.UserOf(key)
	_, _, err = s.List(ctx, u, 10, "")
	must(err)
	_, err = s.Changes(ctx, u, "", 10)
	must(err)
	_, err = s.Heartbeat(ctx, journal.Owner{ID: "r/b"}, false)
	must(err)
	_, err = s.Heartbeat(ctx, owner, true)
	must(err)
	_, err = s.ClaimExpired(ctx, journal.ClaimRequest{Owner: journal.Owner{ID: "r/b"}, Max: 4, MaxSchema: 1})
	must(err)
	_, err = s.ClaimExpired(ctx, journal.ClaimRequest{Owner: journal.Owner{ID: "r/b"}, Max: 4, MaxSchema: 1, MaxWait: time.Millisecond})
	must(err)
	_, err = s.Redact(ctx, key, []int64{1}, "")
	must(err)
	for _, session := range []string{"s", "f"} {
		gone := key
		gone.Session = session
		_, err = s.Delete(ctx, gone)
		must(err)
	}
	_, err = s.Commit(ctx, key, b)
	if err == nil {
		t.Fatal("committed to a deleted thread")
	}
}
