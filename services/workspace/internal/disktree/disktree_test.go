package disktree

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"golang.org/x/text/unicode/norm"
)

// world makes a root with links of every kind, beside a secret that no link may reach.
func world(t *testing.T) (dir string, view *files.View) {
	t.Helper()
	base := t.TempDir()
	dir = filepath.Join(base, "ws")
	write := func(name, content string) {
		t.Helper()
		name = filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	link := func(target, name string) {
		t.Helper()
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	write("outside/secret.txt", "secret")
	write("ws/docs/PERSONA.md", "persona")
	write("ws/sub/x", "x")
	write("ws/.gantry-runtime/private", "private")
	write("ws/"+norm.NFD.String("보고/서.md"), "report")
	link("../outside", "out")
	link("../outside/secret.txt", "leak.txt")
	link("docs/PERSONA.md", "AGENTS.md")
	link("docs", "docs-link")
	link("loop-b", "loop-a")
	link("loop-a", "loop-b")
	link("nowhere", "dangling")
	link("..", "sub/up")
	link(filepath.Join(base, "ws/docs/PERSONA.md"), "absolute")
	if err := syscall.Mkfifo(filepath.Join(dir, "fifo"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return dir, files.NewView(noStore{}, "", []files.Lower{{Layer: files.LayerTemplate, Tree: New(root, nil)}}, files.Limits{}, nil)
}

// noStore is a store without anything: the view is the tree alone.
type noStore struct{ files.Store }

func (noStore) Space(files.Space) files.Own { return nothing{} }

func TestLinks(t *testing.T) {
	_, v := world(t)
	for name, want := range map[string]string{
		"AGENTS.md": "persona", "docs-link/PERSONA.md": "persona", "sub/up/docs/PERSONA.md": "persona", norm.NFC.String("보고/서.md"): "report",
		"out/secret.txt": fsops.ReasonOutsideRoot, "leak.txt": fsops.ReasonOutsideRoot, "out": fsops.ReasonOutsideRoot, "absolute": fsops.ReasonOutsideRoot,
		"out/new/deep.txt": fsops.ReasonOutsideRoot, "sub/up/../outside/secret.txt": fsops.ReasonPathNotFound,
		"loop-a": fsops.ReasonNotRegular, "fifo": fsops.ReasonNotRegular, "dangling": fsops.ReasonPathNotFound,
		".gantry-runtime/private": fsops.ReasonPathInvalid, "docs/PERSONA.md/x": fsops.ReasonNotADirectory,
	} {
		p, err := fsops.ParsePath(name)
		var data []byte
		if err == nil {
			_, data, err = v.ReadAll(t.Context(), p, 1<<20)
		}
		if got := string(data); err != nil {
			if !strings.Contains(reason(err), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
		} else if got != want {
			t.Errorf("%s holds %q, want %q", name, got, want)
		}
	}
}

func TestListing(t *testing.T) {
	_, v := world(t)
	for _, size := range []int{1, 2, 100} {
		var got []string
		for token := ""; ; {
			page, err := v.List(t.Context(), fsops.Path{}, true, size, token)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range page.Entries {
				got = append(got, norm.NFC.String(e.Path.String()))
			}
			if token = page.Next; token == "" {
				break
			}
		}
		want := "AGENTS.md docs docs-link docs/PERSONA.md sub sub/up sub/x 보고 보고/서.md"
		if strings.Join(got, " ") != want {
			t.Errorf("pages of %d: got %s\nwant %s", size, got, want)
		}
	}
}

func TestVisible(t *testing.T) {
	dir, _ := world(t)
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	tree := New(root, func(p fsops.Path) bool { return strings.HasPrefix(p.Key(), "docs") })
	page, err := tree.Below(t.Context(), fsops.Path{}, "", 10)
	if err != nil || len(page.Nodes) != 3 {
		t.Errorf("below: %+v, %v", page, err)
	}
	nodes, err := tree.Get(t.Context(), fsops.PathOf("sub/x"), fsops.PathOf("docs/PERSONA.md"))
	if err != nil || nodes[0].Exists() || !nodes[1].Exists() {
		t.Errorf("get: %+v, %v", nodes, err)
	}
}

func TestUnreadable(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	dir, v := world(t)
	if err := os.Chmod(filepath.Join(dir, "sub"), 0); err != nil {
		t.Fatal(err)
	}
	page, err := v.List(t.Context(), fsops.Path{}, true, 100, "")
	if err != nil || len(page.Warnings) == 0 || len(page.Entries) < 4 {
		t.Errorf("one unreadable directory: %+v, %v", page, err)
	}
}

func TestSignature(t *testing.T) {
	dir, v := world(t)
	p := fsops.PathOf("sub/x")
	before, err := v.Stat(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "sub/x"), []byte("y"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(filepath.Join(dir, "sub/x"), before.ModTime, before.ModTime); err != nil {
		t.Fatal(err)
	}
	after, err := v.Stat(t.Context(), p)
	if err != nil || after.Revision == before.Revision || after.SHA256 == before.SHA256 {
		t.Errorf("a write that keeps size and time is not seen: %+v, %v", after, err)
	}
}
