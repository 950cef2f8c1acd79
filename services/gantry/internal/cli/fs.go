package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

// chunkBytes is the size of a piece of an upload.
const chunkBytes = 256 << 10

// Fs works with files.
type Fs struct {
	Ls   FsLs   `cmd:"" help:"List a directory."`
	Cat  FsCat  `cmd:"" help:"Print a file."`
	Put  FsPut  `cmd:"" help:"Write a file from a file of this machine, or from the standard input."`
	Rm   FsRm   `cmd:"" help:"Delete a file or directory."`
	Mv   FsMv   `cmd:"" help:"Move a file or directory."`
	Glob FsGlob `cmd:"" help:"Find files by a pattern of their path."`
	Grep FsGrep `cmd:"" help:"Search the text of files."`
	Path FsPath `cmd:"" help:"Print where the files of the bucket are on this machine."`
}

// FsLs lists.
type FsLs struct {
	Target
	Path      string `arg:"" optional:"" help:"Directory."`
	Recursive bool   `short:"r" help:"Everything below."`
}

// Run lists.
func (c *FsLs) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		return pages(func(token string) (string, error) {
			got, err := clients.Files.List(ctx, &fsv1.ListRequest{Path: c.Path, Recursive: c.Recursive, PageToken: token})
			if err != nil {
				return "", err
			}
			return got.GetNextPageToken(), c.infos(env, got.GetEntries(), got.GetWarnings())
		})
	})
}

// infos prints entries; places that could not be read go to the standard error.
func (t *Target) infos(env *Env, entries []*fsv1.FileInfo, warnings []string) error {
	for _, e := range entries {
		if t.JSON {
			if err := env.JSON(e); err != nil {
				return err
			}
			continue
		}
		path := e.GetPath()
		if e.GetKind() == fsv1.FileKind_FILE_KIND_DIRECTORY {
			path += "/"
		}
		env.Line("%10d  %-8s  %s", e.GetSizeBytes(), strings.ToLower(strings.TrimPrefix(e.GetLayer().String(), "LAYER_")), path)
	}
	for _, w := range warnings {
		if _, err := io.WriteString(env.Err, "gantry: not read: "+w+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// FsCat prints.
type FsCat struct {
	Target
	Path string `arg:"" help:"File."`
}

// Run prints the bytes as they are.
func (c *FsCat) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		stream, err := clients.Files.Download(ctx, &fsv1.DownloadRequest{Path: c.Path})
		if err != nil {
			return err
		}
		for {
			msg, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return errdefs.New(errdefs.ErrUnavailable, "gantry.cli", "STREAM_BROKEN", "the download broke off")
			}
			if err != nil {
				return err
			}
			if msg.GetEnd() != nil {
				return nil
			}
			if _, err := env.Out.Write(msg.GetChunk()); err != nil {
				return err
			}
		}
	})
}

// FsPut writes.
type FsPut struct {
	Target
	Path string `arg:"" help:"File to write."`
	From string `arg:"" optional:"" default:"-" help:"File of this machine; - is the standard input."`
	New  bool   `help:"Only if there is no such file."`
}

// Run uploads in pieces; nothing is visible before all has arrived and been checked.
func (c *FsPut) Run(ctx context.Context, env *Env) error {
	in := env.In
	if c.From != "-" {
		f, err := os.Open(c.From)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		info, err := c.upload(ctx, clients.Files, in)
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(info)
		}
		env.Line("%s  %d bytes  %s", info.GetPath(), info.GetSizeBytes(), info.GetSha256())
		return nil
	})
}

func (c *FsPut) upload(ctx context.Context, files fsv1.FilesystemServiceClient, in io.Reader) (*fsv1.FileInfo, error) {
	stream, err := files.Upload(ctx)
	if err != nil {
		return nil, err
	}
	head := &fsv1.UploadHeader{Path: c.Path}
	if c.New {
		head.Mode = fsv1.WriteMode_WRITE_MODE_CREATE
	}
	err = stream.Send(&fsv1.UploadRequest{Part: &fsv1.UploadRequest_Header{Header: head}})
	sum, buf := sha256.New(), make([]byte, chunkBytes)
	for err == nil {
		n, readErr := in.Read(buf)
		if n > 0 {
			sum.Write(buf[:n])
			err = stream.Send(&fsv1.UploadRequest{Part: &fsv1.UploadRequest_Chunk{Chunk: buf[:n]}})
		}
		if errors.Is(readErr, io.EOF) {
			break
		}
		if readErr != nil {
			return nil, readErr
		}
	}
	if err != nil && !errors.Is(err, io.EOF) { // io.EOF: the server has answered, and says why below
		return nil, err
	}
	got, err := stream.CloseAndRecv()
	if err != nil {
		return nil, err
	}
	if want := hex.EncodeToString(sum.Sum(nil)); got.GetInfo().GetSha256() != want {
		return nil, errdefs.New(errdefs.ErrDataLoss, "gantry.cli", "CHECKSUM_MISMATCH", "%s did not arrive as it was sent", c.Path)
	}
	return got.GetInfo(), nil
}

// FsRm deletes.
type FsRm struct {
	Target
	Path      string `arg:"" help:"File or directory."`
	Recursive bool   `short:"r" help:"Also a directory that is not empty."`
}

// Run deletes.
func (c *FsRm) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Files.Delete(ctx, &fsv1.DeleteRequest{Path: c.Path, Recursive: c.Recursive})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		env.Line("deleted %d files", got.GetFiles())
		return nil
	})
}

// FsMv moves.
type FsMv struct {
	Target
	From      string `arg:"" help:"File or directory."`
	To        string `arg:"" help:"Its new path."`
	Overwrite bool   `help:"Replace a file that is there."`
}

// Run moves.
func (c *FsMv) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Files.Move(ctx, &fsv1.MoveRequest{FromPath: c.From, ToPath: c.To, Overwrite: c.Overwrite})
		if err != nil {
			return err
		}
		return c.infos(env, []*fsv1.FileInfo{got.GetInfo()}, nil)
	})
}

// FsGlob finds.
type FsGlob struct {
	Target
	Pattern string `arg:"" help:"Glob; without a slash it matches at any depth."`
}

// Run finds.
func (c *FsGlob) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		return pages(func(token string) (string, error) {
			got, err := clients.Files.Glob(ctx, &fsv1.GlobRequest{Pattern: c.Pattern, PageToken: token})
			if err != nil {
				return "", err
			}
			return got.GetNextPageToken(), c.infos(env, got.GetEntries(), got.GetWarnings())
		})
	})
}

// FsGrep searches.
type FsGrep struct {
	Target
	Pattern    string `arg:"" help:"Text, or a regular expression with --regex."`
	Path       string `arg:"" optional:"" help:"File or directory."`
	Regex      bool   `short:"e" help:"Take the pattern as RE2."`
	IgnoreCase bool   `short:"i" help:"Ignore letter case."`
	Glob       string `short:"g" help:"Only files that match."`
}

// Run searches. Exit code 1 when nothing was found, as grep does; an incomplete answer says so.
func (c *FsGrep) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		stream, err := clients.Files.Grep(ctx, &fsv1.GrepRequest{Pattern: c.Pattern, Path: c.Path, Regex: c.Regex, IgnoreCase: c.IgnoreCase, Glob: c.Glob})
		if err != nil {
			return err
		}
		for {
			msg, err := stream.Recv()
			if err != nil {
				return err // the end message comes before the end of the stream
			}
			if c.JSON {
				if err := env.JSON(msg); err != nil {
					return err
				}
			} else if m := msg.GetMatch(); m != nil {
				env.Line("%s:%d:%s", m.GetPath(), m.GetLine(), m.GetText())
			}
			if end := msg.GetEnd(); end != nil {
				return grepEnd(end)
			}
		}
	})
}

func grepEnd(end *fsv1.GrepEnd) error {
	switch {
	case end.GetTruncated():
		return errdefs.New(errdefs.ErrResourceExhausted, "gantry.cli", "INCOMPLETE", "the search is not complete (%s): narrow it", end.GetReason())
	case end.GetMatches() == 0:
		return exitCode(ExitFailed)
	}
	return nil
}

// FsPath locates the bucket.
type FsPath struct{ Target }

// Run prints the directory.
func (c *FsPath) Run(ctx context.Context, env *Env) error {
	return c.Do(ctx, env, func(ctx context.Context, clients *Clients) error {
		got, err := clients.Workspace.LocateBucket(ctx, &workspacev1.LocateBucketRequest{})
		if err != nil {
			return err
		}
		if c.JSON {
			return env.JSON(got)
		}
		if got.GetDirectory() == "" {
			return errdefs.New(errdefs.ErrFailedPrecondition, "gantry.cli", "NO_DIRECTORY", "the %s backend keeps no plain files", got.GetBackend())
		}
		env.Line("%s", got.GetDirectory())
		return nil
	})
}
