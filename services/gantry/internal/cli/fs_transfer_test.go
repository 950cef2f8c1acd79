package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
)

func TestDirectoriesGoThereAndBack(t *testing.T) {
	f := newFiles(t)
	local := t.TempDir()
	want := map[string]string{"a.txt": "a", "b/c.txt": "c", "b/ü 数/d 'q' \"x\".md": "d", "b/.hidden": "h", "empty": "", "bin": "\x00\xff\x01"}
	for n := range 40 {
		want[fmt.Sprintf("many/%02d", n)] = strings.Repeat("x", n)
	}
	for name, text := range want {
		writeLocal(t, local, name, text)
	}
	if err := os.Chmod(filepath.Join(local, "a.txt"), 0o755); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	writeLocal(t, outside, "secret", "s")
	err := errors.Join(os.Symlink(outside, filepath.Join(local, "out")), os.Symlink(filepath.Join(outside, "secret"), filepath.Join(local, "leak")),
		os.Symlink("a.txt", filepath.Join(local, "inside")), syscall.Mkfifo(filepath.Join(local, "pipe"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	want["inside"] = "a"
	code, out, errs := f.fs("", "put", "-r", "tree", local)
	if code != ExitOK || strings.Count(errs, "left out: ") != 3 || strings.Contains(errs, "inside") || !strings.Contains(out, fmt.Sprintf("sent %d files", len(want))) {
		t.Fatalf("put -r: code %d, %s%s", code, out, errs)
	}
	back := filepath.Join(t.TempDir(), "new", "back")
	f.ok("", "get", "-r", "tree", back)
	if diff := cmp.Diff(want, localTree(t, back)); diff != "" {
		t.Errorf("what came back (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(back, "a.txt")); err != nil || info.Mode()&0o100 == 0 {
		t.Errorf("a program came back as %v, %v", info.Mode(), err)
	}

	// What is there is kept, unless it is to be replaced.
	writeLocal(t, back, "a.txt", "mine")
	code, _, errs = f.fs("", "get", "-r", "tree", back)
	if code != ExitFailed || !strings.Contains(errs, "--force") || localTree(t, back)["a.txt"] != "mine" {
		t.Errorf("a second get -r: code %d, %s", code, errs)
	}
	f.ok("", "get", "-r", "-f", "tree", back)
	if got := localTree(t, back); got["a.txt"] != "a" || len(got) != len(want) {
		t.Errorf("with --force: %v", got)
	}
	f.refused([]string{"get", "-r", "nothing", filepath.Join(back, "made")}, "PATH_NOT_FOUND")
	if _, err := os.Stat(filepath.Join(back, "made")); err == nil {
		t.Error("a directory was made for nothing")
	}
}

func TestGetIntoFilesAndDirectories(t *testing.T) {
	f := newFiles(t)
	f.ok("text", "put", "d/a.txt")
	dir := t.TempDir()
	f.ok("", "get", "d/a.txt", dir)
	f.ok("", "get", "d/a.txt", filepath.Join(dir, "b.txt"))
	if got := f.ok("", "get", "d/a.txt", "-"); got != "text" {
		t.Errorf("to the standard output: %q", got)
	}
	if diff := cmp.Diff(map[string]string{"a.txt": "text", "b.txt": "text"}, localTree(t, dir)); diff != "" {
		t.Errorf("fetched (-want +got):\n%s", diff)
	}
	f.refused([]string{"get", "d/a.txt", dir}, "FILE_EXISTS", "--force")
	f.refused([]string{"get", "d", dir}, "IS_DIRECTORY")
	f.refused([]string{"get", "/", dir}, "-r")
}

// hostile is a file service whose names and bytes are not to be trusted.
type hostile struct {
	fsv1.UnimplementedFilesystemServiceServer
	names []string
	cut   bool // downloads break off
}

func (h *hostile) List(context.Context, *fsv1.ListRequest) (*fsv1.ListResponse, error) {
	out := &fsv1.ListResponse{}
	for _, name := range h.names {
		out.Entries = append(out.Entries, &fsv1.FileInfo{Path: name, Kind: fsv1.FileKind_FILE_KIND_FILE, SizeBytes: 3})
	}
	return out, nil
}

func (h *hostile) Download(r *fsv1.DownloadRequest, stream grpc.ServerStreamingServer[fsv1.DownloadResponse]) error {
	parts := []*fsv1.DownloadResponse{
		{Part: &fsv1.DownloadResponse_Header{Header: &fsv1.FileInfo{Path: r.GetPath(), SizeBytes: 3, Mode: 0o4777}}}, {Part: &fsv1.DownloadResponse_Chunk{Chunk: []byte("evi")}},
		{Part: &fsv1.DownloadResponse_End{End: &fsv1.DownloadEnd{SentBytes: 3}}},
	}
	if h.cut {
		parts = parts[:2]
	}
	for _, p := range parts {
		if err := stream.Send(p); err != nil {
			return err
		}
	}
	return nil
}

// serveFiles serves an implementation of the file service, whatever it does.
func serveFiles(t *testing.T, impl fsv1.FilesystemServiceServer) *files {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	fsv1.RegisterFilesystemServiceServer(s, impl)
	go s.Serve(l) //nolint:errcheck // ends with Stop
	t.Cleanup(s.Stop)
	return &files{t: t, addr: l.Addr().String(), user: "ana"}
}

// TestHostileNamesWriteNothingOutside fetches names that lead out of the directory, through it and over each other.
func TestHostileNamesWriteNothingOutside(t *testing.T) {
	parent := t.TempDir()
	target, outside := filepath.Join(parent, "target"), filepath.Join(parent, "outside")
	writeLocal(t, outside, "keep", "kept")
	if err := errors.Join(os.Mkdir(target, 0o755), os.Symlink(outside, filepath.Join(target, "link")), os.Symlink(filepath.Join(outside, "keep"), filepath.Join(target, "filelink"))); err != nil {
		t.Fatal(err)
	}
	bad := []string{"../evil", "../../evil", "a/../../evil", "/evil", "/etc/evil", "..", ".", "", "a//b", "./c", "link/evil", "link/keep", "a\x00b", "filelink"}
	f := serveFiles(t, &hostile{names: append(bad, "good/file")})
	for _, args := range [][]string{{"get", "-r", "/", target}, {"get", "-r", "--force", "/", target}, {"export", target}} {
		code, out, errs := f.fs("", args...)
		if code != ExitFailed || !strings.Contains(errs, "failed: ") || strings.Count(out, "\n") != 1 {
			t.Errorf("%v: code %d, %s%s", args, code, out, errs)
		}
	}
	if diff := cmp.Diff(map[string]string{"keep": "kept"}, localTree(t, outside)); diff != "" {
		t.Errorf("outside (-want +got):\n%s", diff)
	}
	got := localTree(t, parent)
	delete(got, "outside/keep")
	// --force replaces a link itself by a file: what it pointed to is as it was.
	if diff := cmp.Diff(map[string]string{"target/good/file": "evi", "target/filelink": "evi", "target/link": "-> " + outside}, got); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(filepath.Join(target, "good", "file")); err != nil || info.Mode()&os.ModeSetuid != 0 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if _, err := os.Stat("/etc/evil"); err == nil {
		t.Error("/etc/evil was written")
	}
}

func TestABrokenDownloadLeavesNothing(t *testing.T) {
	f := serveFiles(t, &hostile{names: []string{"a"}, cut: true})
	dir := t.TempDir()
	f.refused([]string{"get", "a", filepath.Join(dir, "a")}, "STREAM_BROKEN")
	f.refused([]string{"cat", "a"}, "STREAM_BROKEN")
	if code, _, _ := f.fs("", "export", filepath.Join(dir, "x.tar")); code != ExitFailed {
		t.Errorf("export: code %d", code)
	}
	if got := localTree(t, dir); len(got) > 0 {
		t.Errorf("left behind: %v", got)
	}
}

func TestNamesThatAnOSDoesNotHave(t *testing.T) {
	for name, windows := range map[string]bool{
		"a/b.txt": true, "ü 数/x": true, ".hidden": true, "COM10": true, "console": true, "a b": true, "nul_": true,
		"CON": false, "a/nul.txt": false, "com1": false, "LPT9.md": false, "COM¹": false, "aux .txt": false, "CONIN$": false, "a:b": false, `a\b`: false, "a?": false, "a*": false,
		"a|b": false, `"q"`: false, "<a>": false, "end.": false, "end ": false, "dir. /x": false, "a\nb": false, "x\x1f": false,
	} {
		if err := localName("windows", name); (err == nil) != windows {
			t.Errorf("%q on Windows: %v", name, err)
		}
		if err := localName("linux", name); err != nil {
			t.Errorf("%q elsewhere: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", "/", "/a", "a/", "a//b", "./a", "a/.", "a/../b", "../a", "a\x00", "\xff", "a\uFFFD"} {
		if err := localName("linux", name); err == nil {
			t.Errorf("%q is fine", name)
		}
	}
	folding := &localNames{goos: "darwin", seen: map[string]string{}}
	for name, fine := range map[string]bool{"Read.me": true, "read.ME": false} {
		if fine { // whichever comes second is refused
			if _, err := folding.of(name); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := folding.of("read.ME"); err == nil {
		t.Error("two names that are one file here are both fine")
	}
}

// TestLargeFilesInConstantMemory sends 64 MiB and fetches it again, all in this process, service included. What counts is what each collection finds in use.
func TestLargeFilesInConstantMemory(t *testing.T) {
	const size, room = 64 << 20, 32 << 20 // gRPC takes up to 16 MiB on the way
	f := newFiles(t)
	f.ok("x", "put", "small.txt") // what is made once
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	runtime.GC()
	before, peak := liveHeap(), make(chan uint64)
	stop := make(chan struct{})
	go func() {
		var most uint64
		ticker := time.NewTicker(5 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				most = max(most, liveHeap())
			case <-stop:
				peak <- most
				return
			}
		}
	}()
	var out, errs bytes.Buffer
	if code := f.command(t.Context(), &Env{In: zeros(size), Out: &out, Err: &errs}, "put", "big.bin"); code != ExitOK {
		t.Fatalf("put: code %d, %s", code, errs.String())
	}
	local := filepath.Join(t.TempDir(), "big.bin")
	f.ok("", "get", "big.bin", local)
	f.ok("", "put", "again.bin", local)
	if code := f.command(t.Context(), &Env{Out: io.Discard, Err: &errs}, "export", "-"); code != ExitOK {
		t.Fatalf("export: code %d, %s", code, errs.String())
	}
	close(stop)
	most := <-peak
	if info, err := os.Stat(local); err != nil || info.Size() != size {
		t.Errorf("it came back as %v, %v", info, err)
	}
	t.Logf("live heap: %s before, at most %s", sizeText(int64(before)), sizeText(int64(most)))
	if most > before+room {
		t.Errorf("the heap grew from %s to %s for a file of %s", sizeText(int64(before)), sizeText(int64(most)), sizeText(size))
	}
}

// liveHeap is what the last collection found in use.
func liveHeap() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestProgressIsForTerminals(t *testing.T) {
	f := newFiles(t)
	var errs terminal
	if code := f.command(t.Context(), &Env{In: zeros(4 << 20), Out: io.Discard, Err: &errs}, "put", "a.bin"); code != ExitOK || !strings.Contains(errs.String(), "MiB") && !strings.Contains(errs.String(), "KiB") || !strings.HasSuffix(errs.String(), "\r") {
		t.Errorf("code %d, %q", code, errs.String())
	}
}
