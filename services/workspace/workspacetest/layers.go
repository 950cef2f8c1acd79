package workspacetest

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// Layers is a service and an agent whose template the suite may replace.
type Layers struct {
	Conn  grpc.ClientConnInterface
	Agent string
	// Mounted: the bucket of scope agent is the directory of the template itself, as on the backend of plain files.
	Mounted bool
	// Put makes the template hold exactly these files. Nil: by the API.
	Put func(files []*workspacev1.TemplateFile)
	// Restart starts the service anew over the same data. Nil: it goes on as it is.
	Restart func() grpc.ClientConnInterface
}

// RunLayers runs the cases about layers: on templates that are stored, or are a directory of the host.
func RunLayers(t testkit.T, target func(t testkit.T) Layers) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"shadowing", shadowing},
		{"copy up", copyUp},
		{"whiteouts", whiteouts},
		{"template changes", templateChanges},
		{"scopes", scopes},
		{"anonymous", anonymous},
	} {
		t.Run(c.name, func(t testkit.T) {
			l := target(t)
			s := &suite{T: t, agent: l.Agent, layers: l}
			s.connect(l.Conn)
			c.test(s)
		})
	}
}

func (s *suite) connect(conn grpc.ClientConnInterface) {
	s.workspaces, s.files = workspacev1.NewWorkspaceServiceClient(conn), filesystemv1.NewFilesystemServiceClient(conn)
}

// lay makes the template hold these files.
func (s *suite) lay(files []*workspacev1.TemplateFile) {
	s.Helper()
	if s.layers.Put != nil {
		s.layers.Put(files)
		return
	}
	_, err := s.workspaces.PutAgentTemplate(s.as("op"), &workspacev1.PutAgentTemplateRequest{Agent: s.agent, Files: files, Overwrite: true})
	s.ok(err)
}

// restart starts the service anew, where that is possible.
func (s *suite) restart() {
	if s.layers.Restart != nil {
		s.connect(s.layers.Restart())
	}
}

// layered is a template with an override for ana.
func layered() []*workspacev1.TemplateFile {
	files := templateFiles(
		"AGENTS.md", "rules", "knowledge/a.md", "needle a", "knowledge/b.md", "needle b", "knowledge/bin", "\x00\xff\r\n", "knowledge/empty", "",
		"skills/s/SKILL.md", "needle skill", "skills/s/run.sh", "needle run", "ana/AGENTS.md", "rules for ana", "ana/knowledge/b.md", "needle b for ana", "ana/knowledge/c.md", "needle c for ana",
	)
	for _, f := range files {
		if strings.HasSuffix(f.GetPath(), ".sh") {
			f.Mode = 0o755
		}
	}
	return files
}

var layerNames = map[filesystemv1.Layer]string{
	filesystemv1.Layer_LAYER_BUCKET: "bucket", filesystemv1.Layer_LAYER_USER: "user", filesystemv1.Layer_LAYER_TEMPLATE: "template",
}

func described(e *filesystemv1.FileInfo) string {
	out := layerNames[e.GetLayer()]
	if e.GetShadows() {
		out += "*"
	}
	return out
}

// shows fails unless a user sees exactly these files (path, layer with a * where it shadows one), by listing, glob, stat and grep alike. Directories are left out.
func (s *suite) shows(user string, pairs ...string) {
	s.Helper()
	want := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	found := map[string]map[string]string{}
	add := func(how string, entries []*filesystemv1.FileInfo) {
		found[how] = map[string]string{}
		for _, e := range entries {
			if _, twice := found[how][e.GetPath()]; twice {
				s.Errorf("%s shows %s twice", how, e.GetPath())
			}
			if e.GetKind() == filesystemv1.FileKind_FILE_KIND_FILE {
				found[how][e.GetPath()] = described(e)
			}
		}
	}
	list, err := s.files.List(s.as(user), &filesystemv1.ListRequest{Recursive: true, PageSize: 1000})
	s.ok(err)
	add("list", list.GetEntries())
	glob, err := s.files.Glob(s.as(user), &filesystemv1.GlobRequest{Pattern: "**", PageSize: 1000})
	s.ok(err)
	add("glob", glob.GetEntries())
	var stats []*filesystemv1.FileInfo
	for _, path := range slices.Sorted(maps.Keys(want)) {
		out, err := s.files.Stat(s.as(user), &filesystemv1.StatRequest{Path: path})
		if err != nil {
			s.Errorf("stat %s: %v", path, err)
			continue
		}
		stats = append(stats, out.GetInfo())
	}
	add("stat", stats)
	for how, got := range found {
		if !maps.Equal(got, want) {
			s.Errorf("%s sees by %s %v\nwant %v", user, how, got, want)
		}
	}
	for path, layer := range s.grep(user, "needle") {
		if strings.TrimSuffix(want[path], "*") != layer {
			s.Errorf("%s finds %s of the layer %s by grep, want %q", user, path, layer, want[path])
		}
	}
}

// grep returns the layers of the files that hold a text.
func (s *suite) grep(user, text string) map[string]string {
	s.Helper()
	stream, err := s.files.Grep(s.as(user), &filesystemv1.GrepRequest{Pattern: text})
	s.ok(err)
	out := map[string]string{}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out
		}
		s.ok(err)
		if m := message.GetMatch(); m != nil {
			out[m.GetPath()] = layerNames[m.GetLayer()]
		}
	}
}

func (s *suite) holds(user, path, content string) {
	s.Helper()
	got, err := s.files.Read(s.as(user), &filesystemv1.ReadRequest{Path: path, Mode: filesystemv1.ReadMode_READ_MODE_BYTES})
	if err != nil || string(got.GetData()) != content {
		s.Errorf("%s reads %q as %q, %v, want %q", user, path, got.GetData(), err, content)
	}
}

func (s *suite) lacks(user, path string) {
	s.Helper()
	_, err := s.files.Stat(s.as(user), &filesystemv1.StatRequest{Path: path})
	s.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
}

// delete removes a path and says how many files went.
func (s *suite) delete(user, path string) int64 {
	s.Helper()
	out, err := s.files.Delete(s.as(user), &filesystemv1.DeleteRequest{Path: path, Recursive: true})
	s.ok(err)
	return out.GetFiles()
}

var benSees = []string{
	"AGENTS.md", "template", "knowledge/a.md", "template", "knowledge/b.md", "template", "knowledge/bin", "template", "knowledge/empty", "template",
	"skills/s/SKILL.md", "template", "skills/s/run.sh", "template",
}

// The highest layer that has a path is what is seen, everywhere, and it is named.
func shadowing(s *suite) {
	s.lay(layered())
	s.shows("ana", "AGENTS.md", "user*", "knowledge/a.md", "template", "knowledge/b.md", "user*", "knowledge/bin", "template", "knowledge/c.md", "user", "knowledge/empty", "template",
		"skills/s/SKILL.md", "template", "skills/s/run.sh", "template")
	s.shows("ben", benSees...)
	s.write("ana", "AGENTS.md", "needle mine")
	s.write("ana", "notes.txt", "needle notes")
	s.restart()
	s.shows("ana", "AGENTS.md", "bucket*", "knowledge/a.md", "template", "knowledge/b.md", "user*", "knowledge/bin", "template", "knowledge/c.md", "user", "knowledge/empty", "template",
		"notes.txt", "bucket", "skills/s/SKILL.md", "template", "skills/s/run.sh", "template")
	s.holds("ana", "AGENTS.md", "needle mine")
	s.holds("ben", "AGENTS.md", "rules")
	for layer, want := range map[filesystemv1.Layer]string{
		filesystemv1.Layer_LAYER_BUCKET: "needle mine", filesystemv1.Layer_LAYER_USER: "rules for ana", filesystemv1.Layer_LAYER_TEMPLATE: "rules",
	} {
		got, err := s.files.Read(s.as("ana"), &filesystemv1.ReadRequest{Path: "AGENTS.md", Layer: layer, Mode: filesystemv1.ReadMode_READ_MODE_BYTES})
		if err != nil || string(got.GetData()) != want || got.GetInfo().GetLayer() != layer {
			s.Errorf("the layer %s holds %q, %v, want %q", layerNames[layer], got.GetData(), err, want)
		}
	}
	s.delete("ana", "notes.txt")
	s.lacks("ana", "notes.txt")
}

// A change of a file of a lower layer copies it up, bytes and mode, and leaves the layer as it is.
func copyUp(s *suite) {
	s.lay(layered())
	_, err := s.files.Edit(s.as("ana"), &filesystemv1.EditRequest{Path: "skills/s/run.sh", Replacements: []*filesystemv1.Replacement{{OldText: "run", NewText: "changed"}}})
	s.ok(err)
	for path, add := range map[string]string{"knowledge/bin": "\xfe", "knowledge/empty": "x", "knowledge/b.md": "+"} {
		_, err := s.files.Append(s.as("ana"), &filesystemv1.AppendRequest{Path: path, Content: []byte(add)})
		s.ok(err)
	}
	moved, err := s.files.Move(s.as("ana"), &filesystemv1.MoveRequest{FromPath: "knowledge/c.md", ToPath: "knowledge/d.md"})
	s.ok(err)
	if moved.GetInfo().GetLayer() != filesystemv1.Layer_LAYER_BUCKET || moved.GetFiles() != 1 {
		s.Errorf("moved: %v", moved)
	}
	_, err = s.files.Edit(s.as("ana"), &filesystemv1.EditRequest{Path: "knowledge/a.md", Replacements: []*filesystemv1.Replacement{{OldText: "nowhere", NewText: "x"}}})
	s.fails(err, errdefs.ErrFailedPrecondition, "EDIT_NO_MATCH")
	_, err = s.files.Write(s.as("ana"), &filesystemv1.WriteRequest{Path: "knowledge/a.md", Mode: filesystemv1.WriteMode_WRITE_MODE_CREATE})
	s.fails(err, errdefs.ErrAlreadyExists, "PATH_EXISTS")
	s.restart()
	s.shows("ana", "AGENTS.md", "user*", "knowledge/a.md", "template", "knowledge/b.md", "bucket*", "knowledge/bin", "bucket*", "knowledge/d.md", "bucket", "knowledge/empty", "bucket*",
		"skills/s/SKILL.md", "template", "skills/s/run.sh", "bucket*")
	for path, content := range map[string]string{
		"skills/s/run.sh": "needle changed", "knowledge/bin": "\x00\xff\r\n\xfe", "knowledge/empty": "x", "knowledge/b.md": "needle b for ana+", "knowledge/d.md": "needle c for ana",
	} {
		s.holds("ana", path, content)
	}
	out, err := s.files.Stat(s.as("ana"), &filesystemv1.StatRequest{Path: "skills/s/run.sh"})
	if err != nil || out.GetInfo().GetMode() != 0o755 {
		s.Errorf("the mode of a file that was copied up: %o, %v", out.GetInfo().GetMode(), err)
	}
	s.shows("ben", benSees...)
	s.holds("ben", "skills/s/run.sh", "needle run")
	// Without the copy, the layer is seen again; the bucket has taken nothing else.
	if n := s.delete("ana", "knowledge/d.md"); n != 1 {
		s.Errorf("deleted %d files", n)
	}
}

// What is deleted stays deleted, for this bucket alone, through restarts and whatever is written beside it.
func whiteouts(s *suite) {
	s.lay(layered())
	for path, want := range map[string]int64{"knowledge/b.md": 1, "skills": 2, "AGENTS.md": 1} {
		if n := s.delete("ana", path); n != want {
			s.Errorf("deleted %d files at %s, want %d", n, path, want)
		}
	}
	rest := []string{"knowledge/a.md", "template", "knowledge/bin", "template", "knowledge/c.md", "user", "knowledge/empty", "template"}
	s.shows("ana", rest...)
	s.restart()
	s.shows("ana", rest...)
	for _, path := range []string{"knowledge/b.md", "skills", "skills/s", "skills/s/run.sh", "AGENTS.md"} {
		s.lacks("ana", path)
	}
	_, err := s.files.Delete(s.as("ana"), &filesystemv1.DeleteRequest{Path: "AGENTS.md"})
	s.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
	s.write("ana", "skills/s/own.md", "needle own")
	s.write("ana", "AGENTS.md", "new")
	s.shows("ana", append([]string{"AGENTS.md", "bucket", "skills/s/own.md", "bucket"}, rest...)...)
	s.delete("ana", "AGENTS.md")
	s.lacks("ana", "AGENTS.md")
	if d := s.definition("ana"); d.GetRules().GetText() != "" || len(d.GetSkills()) != 0 {
		s.Errorf("the definition has what was deleted: %v", d)
	}
	s.shows("ben", benSees...)
	gone, err := s.workspaces.ForgetBucket(s.as("ana"), &workspacev1.ForgetBucketRequest{Confirm: true})
	if err != nil || gone.GetFiles() != 1 {
		s.Errorf("forgot %d files, %v", gone.GetFiles(), err)
	}
	s.holds("ana", "AGENTS.md", "rules for ana")
}

// What engineers change is seen by the next call, except where the bucket has its own or has deleted it.
func templateChanges(s *suite) {
	s.lay(layered())
	s.delete("ana", "knowledge/a.md")
	s.delete("ana", "skills/s")
	s.write("ana", "knowledge/c.md", "needle mine")
	before := s.definition("ana").GetFingerprint()
	s.lay(templateFiles("AGENTS.md", "new rules", "knowledge/a.md", "needle new a", "knowledge/c.md", "needle new c", "knowledge/e.md", "needle e", "skills/s/extra.md", "needle", "skills/t/SKILL.md", "needle"))
	s.shows("ana", "AGENTS.md", "template", "knowledge/c.md", "bucket*", "knowledge/e.md", "template", "skills/t/SKILL.md", "template")
	s.shows("ben", "AGENTS.md", "template", "knowledge/a.md", "template", "knowledge/c.md", "template", "knowledge/e.md", "template", "skills/s/extra.md", "template", "skills/t/SKILL.md", "template")
	s.holds("ana", "AGENTS.md", "new rules")
	if s.definition("ana").GetFingerprint() == before {
		s.Error("the fingerprint of the definition stays while the template changes")
	}
	// A directory takes the place of a file, and a file that of a directory; the bucket's file hides both.
	s.lay(templateFiles("knowledge/e.md/x", "needle", "knowledge/c.md/y", "needle", "skills/t", "needle"))
	s.shows("ana", "knowledge/c.md", "bucket*", "knowledge/e.md/x", "template", "skills/t", "template")
	s.restart()
	s.shows("ana", "knowledge/c.md", "bucket*", "knowledge/e.md/x", "template", "skills/t", "template")
	if got := fmt.Sprint(s.grep("ben", "needle")); got != "map[knowledge/c.md/y:template knowledge/e.md/x:template skills/t:template]" {
		s.Errorf("ben finds %s", got)
	}
}
