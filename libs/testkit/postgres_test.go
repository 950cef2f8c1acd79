package testkit

import (
	"net/url"
	"strings"
	"testing"
)

func TestPostgresGivesFreshDatabases(t *testing.T) {
	var first string
	t.Run("first", func(t *testing.T) {
		first = Postgres(t)
		if err := psql(first, "CREATE TABLE t (k text PRIMARY KEY)"); err != nil {
			t.Fatal(err)
		}
	})
	second := Postgres(t)
	if err := psql(second, "SELECT * FROM t"); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("the second database is not empty: %v", err)
	}
	if err := psql(first, "SELECT 1"); err == nil {
		t.Error("the first database outlives its test")
	}
	if err := psql(second, "DO $$ BEGIN ASSERT (SELECT datcollate = 'C' AND encoding = pg_char_to_encoding('UTF8') FROM pg_database WHERE datname = current_database()); END $$"); err != nil {
		t.Errorf("encoding or collation: %v", err)
	}
	if u, err := url.Parse(second); err != nil || u.Hostname() == "" {
		t.Errorf("URL %q: %v", second, err)
	}
}

func TestDurablePostgresWaitsForTheDisk(t *testing.T) {
	check := "DO $$ BEGIN IF current_setting('fsync') <> 'on' OR current_setting('synchronous_commit') <> 'on' THEN RAISE 'it does not'; END IF; END $$"
	if err := psql(DurablePostgres(t), check); err != nil {
		t.Error(err)
	}
	if err := psql(Postgres(t), check); err == nil {
		t.Error("the usual server waits for the disk too")
	}
}
