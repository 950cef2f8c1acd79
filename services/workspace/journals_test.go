package workspace_test

import (
	"os"
	"path/filepath"
	"testing"

	threadv1 "github.com/gantry-agents/gantry/gen/gantry/thread/v1"
	"github.com/gantry-agents/gantry/libs/access"
	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
	"github.com/gantry-agents/gantry/services/workspace"
)

// TestWhereTheJournalIs serves two replicas on one database: a thread that came to the one is with the other, unless the journal was kept in a file.
func TestWhereTheJournalIs(t *testing.T) {
	for name, c := range map[string]struct {
		files, journal string
		shared         bool
	}{
		"with the files":         {files: workspace.BackendPostgres, shared: true},
		"alone":                  {files: workspace.BackendLocal, journal: workspace.BackendPostgres, shared: true},
		"in a file":              {files: workspace.BackendPostgres, journal: workspace.BackendSQLite},
		"in a file with no word": {files: workspace.BackendLocal},
	} {
		t.Run(name, func(t *testing.T) {
			dsn := testkit.Postgres(t)
			ctx := identity.NewContext(t.Context(), identity.Identity{Tenant: "t", Agent: "a", User: "u", Session: "s"})
			var found [2]bool
			for i := range found {
				cfg := settings(t, workspace.BackendLocal)
				cfg.Backend, cfg.Journal, cfg.Postgres = c.files, c.journal, config.Secret(dsn)
				threads := threadv1.NewThreadServiceClient(serve(t, cfg, access.Options{}))
				_, err := threads.Head(ctx, &threadv1.HeadRequest{})
				found[i] = err == nil
				if _, err := threads.Post(ctx, &threadv1.PostRequest{Mail: &threadv1.Mail{MessageId: "m", Kind: "input"}}); err != nil {
					t.Fatal(err)
				}
				if _, err := os.Stat(filepath.Join(cfg.Data, "journal.db")); (err == nil) != !c.shared {
					t.Errorf("a file of the journal: %v", err)
				}
			}
			if found[0] || found[1] != c.shared {
				t.Errorf("the thread was there before: %v, want shared %v", found, c.shared)
			}
		})
	}
}
