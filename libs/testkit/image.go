package testkit

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"
)

// Image says what an image holds that is made from files of the host, since no registry can be reached.
type Image struct {
	// Programs are names or paths; each comes with the libraries that it is linked with.
	Programs []string
	// Trees are files and directories that are taken as they are.
	Trees []string
	// Files are further files by path, with their content; they are executable.
	Files map[string]string
	// Config are Dockerfile instructions: ENV, ENTRYPOINT, CMD, EXPOSE, USER.
	Config []string
}

// Shell is an image with a shell and the usual small programs: enough for commands and scripts.
func Shell() Image {
	return Image{
		Programs: []string{"sh", "bash", "cat", "ls", "echo", "printf", "env", "id", "sleep", "true", "false", "mkdir", "rmdir", "rm", "cp", "mv", "ln", "touch",
			"chmod", "chown", "stat", "head", "tail", "wc", "sort", "uniq", "cut", "tr", "date", "uname", "pwd", "test", "tee", "seq", "timeout", "kill", "dd", "du", "df",
			"sha256sum", "base64", "grep", "sed", "awk", "find", "xargs", "tar", "gzip", "ps"},
		Trees:  []string{"/etc/passwd", "/etc/group", "/etc/nsswitch.conf"},
		Config: []string{"ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", `CMD ["sh"]`},
	}
}

// PostgresImage is an image of the host's PostgreSQL that obeys POSTGRES_USER, POSTGRES_PASSWORD and POSTGRES_DB as the
// well-known image does, and listens on 5432.
func PostgresImage() (Image, error) {
	bin, err := postgresBinaries()
	if err != nil {
		return Image{}, err
	}
	v := filepath.Base(filepath.Dir(bin))
	image := Shell()
	for _, p := range []string{"postgres", "initdb", "psql", "pg_isready", "createdb"} {
		image.Programs = append(image.Programs, filepath.Join(bin, p))
	}
	image.Programs = append(image.Programs, "setpriv", "locale")
	image.Trees = append(image.Trees, "/usr/share/postgresql/"+v, "/usr/lib/postgresql/"+v+"/lib", "/usr/share/zoneinfo/UTC", "/usr/share/zoneinfo/Etc")
	image.Files = map[string]string{"/entry.sh": postgresEntry}
	image.Config = append(image.Config, "ENV PGBIN="+bin, "EXPOSE 5432", `ENTRYPOINT ["/bin/sh","/entry.sh"]`)
	return image, nil
}

// The entry point: a cluster is made at the first start, its database by a server that only the socket reaches.
const postgresEntry = `#!/bin/sh
set -e
[ "$1" = postgres ] && shift
data=/var/lib/postgresql/data
user=${POSTGRES_USER:-postgres}
mkdir -p $data /var/run/postgresql /tmp
chown -R postgres:postgres $data /var/run/postgresql
chmod 700 $data; chmod 1777 /tmp
as() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
if [ ! -s $data/PG_VERSION ]; then
	printf %s "${POSTGRES_PASSWORD:-postgres}" >/tmp/pw; chown postgres /tmp/pw
	as $PGBIN/initdb -D $data -U "$user" --pwfile=/tmp/pw --auth-local=trust --auth-host=scram-sha-256 -E UTF8 --no-locale --no-sync >/dev/null
	rm /tmp/pw
	echo "host all all all scram-sha-256" >>$data/pg_hba.conf
	if [ "${POSTGRES_DB:-$user}" != postgres ]; then
		setpriv --reuid=postgres --regid=postgres --clear-groups $PGBIN/postgres -D $data -c listen_addresses= -k /tmp & first=$!
		until as $PGBIN/pg_isready -q -h /tmp -U "$user"; do sleep 0.05; done
		as $PGBIN/createdb -h /tmp -U "$user" "${POSTGRES_DB:-$user}"
		kill -INT $first; wait $first || true
	fi
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups $PGBIN/postgres -D $data -c listen_addresses='*' "$@"
`

// HostImage makes an image under the tag, from files of the host alone, and leaves it to the engine, which ends with the
// test binary. An image of that tag that exists is taken as it is.
func (e Engine) HostImage(tb testing.TB, tag string, image Image) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 5*time.Minute)
	defer cancel()
	if e.Command(ctx, "docker", "image", "inspect", tag).Run() == nil {
		return
	}
	args := []string{"import"}
	for _, c := range image.Config {
		args = append(args, "--change", c)
	}
	cmd := e.Command(ctx, "docker", append(args, "-", tag)...)
	in, out := io.Pipe()
	cmd.Stdin = in
	written := make(chan error, 1)
	go func() {
		err := image.write(out)
		out.CloseWithError(err)
		written <- err
	}()
	text, err := cmd.CombinedOutput()
	in.CloseWithError(errors.New("docker import has ended"))
	if err := errors.Join(err, <-written); err != nil {
		tb.Fatalf("make the image %s: %v\n%s", tag, err, text)
	}
}

// write writes the image's files as a tar stream.
func (i Image) write(w io.Writer) error {
	paths := map[string]bool{}
	for _, p := range i.Programs {
		if err := program(p, paths); err != nil {
			return err
		}
	}
	for _, t := range i.Trees {
		err := filepath.WalkDir(t, func(p string, _ fs.DirEntry, err error) error {
			if err == nil {
				paths[p] = true
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	t := &layer{tar: tar.NewWriter(w), done: map[string]bool{}}
	sorted := make([]string, 0, len(paths))
	for p := range paths {
		sorted = append(sorted, p)
	}
	sort.Strings(sorted)
	for _, p := range append([]string{"/tmp", "/root", "/usr/bin", "/bin", "/lib", "/lib64", "/sbin"}, sorted...) {
		if err := t.add(p); err != nil {
			return err
		}
	}
	for p, content := range i.Files {
		if err := t.text(p, content); err != nil {
			return err
		}
	}
	return t.tar.Close()
}

// program adds a program and what the dynamic linker loads for it.
func program(name string, paths map[string]bool) error {
	path, err := exec.LookPath(name)
	if err != nil {
		return err
	}
	paths[path] = true
	// ldd fails for a script or a static program, which need nothing.
	out, err := exec.Command("ldd", path).Output()
	if err != nil {
		return nil
	}
	for _, field := range strings.Fields(string(out)) {
		if strings.HasPrefix(field, "/") {
			paths[field] = true
		}
	}
	return nil
}

// layer writes each path once, its parents first, and what a link points to after the link.
type layer struct {
	tar  *tar.Writer
	done map[string]bool
}

func (l *layer) add(p string) error {
	p = filepath.Clean(p)
	if p == "/" || l.done[p] {
		return nil
	}
	if err := l.add(filepath.Dir(p)); err != nil {
		return err
	}
	// A parent that is a link (/bin on Debian) puts the entry elsewhere.
	if real, err := filepath.EvalSymlinks(filepath.Dir(p)); err == nil && real != filepath.Dir(p) {
		return l.add(filepath.Join(real, filepath.Base(p)))
	}
	l.done[p] = true
	info, err := os.Lstat(p)
	if err != nil {
		return err
	}
	link := ""
	if info.Mode()&fs.ModeSymlink != 0 {
		if link, err = os.Readlink(p); err != nil {
			return err
		}
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name = strings.TrimPrefix(p, "/")
	if err := l.tar.WriteHeader(h); err != nil {
		return err
	}
	if link != "" {
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(p), link)
		}
		if _, err := os.Stat(link); err != nil {
			return nil // a link to nowhere is one in the image as well
		}
		return l.add(link)
	}
	if !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.Open(p)
	if err != nil {
		return err
	}
	defer f.Close()
	if n, err := io.Copy(l.tar, f); err != nil || n != info.Size() {
		return fmt.Errorf("%s: %d of %d bytes: %w", p, n, info.Size(), err)
	}
	return nil
}

func (l *layer) text(p, content string) error {
	if err := l.tar.WriteHeader(&tar.Header{Name: strings.TrimPrefix(p, "/"), Mode: 0o755, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := io.WriteString(l.tar, content)
	return err
}
