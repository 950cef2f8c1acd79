// Package fstest is the black-box suite of gantry.filesystem.v1.FilesystemService. Every implementer passes it, at any address: the workspace service, the sandbox service, the
// orchestrator's router, and whatever else somebody puts in their place.
//
// What an implementer has is stated in a [Profile]; for what it has not, the suite checks that the operations answer UNIMPLEMENTED with the reason
// CAPABILITY_MISSING, and that GetCapabilities says the same.
package fstest

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"time"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/errdefs/errgrpc"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/libs/testkit"
)

// Profile says what an implementer has.
type Profile struct {
	// Layers: files of a stored template are seen under those of the bucket. The suite writes the template with the verb template.write.
	Layers bool
	// SomeLayers: some paths have layers and others have not, as under a router. The case about layers is left out.
	SomeLayers bool
	// History: revisions are kept, listed, compared and restored.
	History bool
	// ChangeSets: several changes are applied all or none.
	ChangeSets bool
	// SomeHistory: paths below the prefix have history and change sets, and others have not, as under a router.
	SomeHistory bool
	// Watch: changes are streamed, with a cursor that survives restarts.
	Watch bool
	// Effects: effect ids are honoured.
	Effects bool
	// ArbitraryNames: every name of valid UTF-8 without NUL and "/" is kept.
	ArbitraryNames bool
	// EmptyDirectories: a directory may stay when the last file in it is gone.
	EmptyDirectories bool
	// UsageInBlocks: GetUsage counts what the disk gives, blocks and directories, not the bytes of the files.
	UsageInBlocks bool
	// SkipModes: permission bits are not kept.
	SkipModes bool
	// Shared says that identities do not select buckets of their own: the cases about isolation are left out.
	Shared bool
}

// Target is an implementer under test.
type Target struct {
	// Client calls it. It must send the identity of the context along, as connections of package client do.
	Client filesystemv1.FilesystemServiceClient
	// Profile of the implementer.
	Profile Profile
	// Prefix is put before every path: a place where the target keeps files that the suite may write. Empty: the root.
	Prefix string
	// Context adds what the target needs, a credential or a sandbox, to a context with an identity. Nil: nothing.
	Context func(context.Context) context.Context
}

// Run runs the suite. The factory is called for each case; the suite uses ids of its own, so targets may live in the same store.
func Run(t testkit.T, factory func(t testkit.T) Target) {
	for _, c := range []struct {
		name string
		test func(*user)
	}{
		{"capabilities", capabilities},
		{"write and read", writeAndRead},
		{"write modes", writeModes},
		{"exact bytes", exactBytes},
		{"bad paths", badPaths},
		{"names", names},
		{"normal forms", normalForms},
		{"directories", directories},
		{"pages", pages},
		{"windows", windows},
		{"long line", longLine},
		{"end of file", endOfFile},
		{"edit line endings", editEndings},
		{"edit all or nothing", editAtomic},
		{"append", appends},
		{"delete", deletes},
		{"move", moves},
		{"glob", globs},
		{"grep", greps},
		{"grep limits", grepLimits},
		{"binary", binary},
		{"upload and download", transfer},
		{"upload refused", transferRefused},
		{"concurrent creates", concurrentCreates},
		{"concurrent appends", concurrentAppends},
		{"readers see whole files", wholeFiles},
		{"effects", effects},
		{"watch", watch},
		{"layers", layers},
		{"history", history},
		{"restore", restores},
		{"effects of history", historyEffects},
		{"change sets", changeSets},
		{"change sets all or none", changeSetsAtomic},
		{"usage", usage},
		{"isolation", isolation},
		{"anonymous", anonymous},
		{"cancelled", cancelled},
	} {
		t.Run(c.name, func(t testkit.T) {
			target := factory(t)
			c.test(target.user(t, identity.Identity{Agent: "fstest-" + token(), User: "ana", Session: "s1"}))
		})
	}
}

// identityOf shortens signatures.
type identityOf = identity.Identity

// user calls the target on behalf of one identity. Methods fail the test on what must not fail.
type user struct {
	testkit.T
	target Target
	id     identity.Identity
	ctx    context.Context
	client filesystemv1.FilesystemServiceClient
	has    Profile
}

func (target Target) user(t testkit.T, id identity.Identity) *user {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	ctx = identity.NewContext(ctx, id)
	if target.Context != nil {
		ctx = target.Context(ctx)
	}
	return &user{T: t, target: target, id: id, ctx: ctx, client: target.Client, has: target.Profile}
}

// as is the same target for another identity.
func (u *user) as(change func(*identity.Identity)) *user {
	id := u.id
	change(&id)
	return u.target.user(u.T, id)
}

// effect is the context of a change that happens once.
func (u *user) effect(id string) context.Context {
	with := u.id
	with.Effect = id
	ctx := identity.NewContext(u.ctx, with)
	if u.target.Context != nil {
		ctx = u.target.Context(ctx)
	}
	return ctx
}

func newEffect() string { return effect.Random(time.Now()) }

func token() string { return strings.ToLower(rand.Text()[:10]) }

// at is a path of the suite in the target.
func (u *user) at(path string) string {
	if u.target.Prefix == "" {
		return path
	}
	return strings.TrimSuffix(u.target.Prefix+"/"+path, "/")
}

// own undoes at.
func (u *user) own(path string) string {
	if u.target.Prefix == "" {
		return path
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, u.target.Prefix), "/")
}

func reason(err error) string { return errdefs.ReasonOf(errgrpc.FromStatus(err)) }

// fails checks class and reason of an error.
func (u *user) fails(err error, class error, want string) {
	u.Helper()
	err = errgrpc.FromStatus(err)
	if !errors.Is(err, class) || errdefs.ReasonOf(err) != want {
		u.Errorf("got error %v (reason %s), want %v with reason %s", err, errdefs.ReasonOf(err), class, want)
	}
}

func (u *user) ok(err error) {
	u.Helper()
	if err != nil {
		u.Fatalf("unexpected error (reason %s): %v", reason(err), err)
	}
}

func (u *user) write(path, content string) *filesystemv1.WriteResponse {
	u.Helper()
	out, err := u.client.Write(u.ctx, &filesystemv1.WriteRequest{Path: u.at(path), Content: []byte(content)})
	if err != nil {
		u.Fatalf("write %q: %v", path, err)
	}
	return out
}

func (u *user) stat(path string) (*filesystemv1.FileInfo, error) {
	out, err := u.client.Stat(u.ctx, &filesystemv1.StatRequest{Path: u.at(path)})
	return out.GetInfo(), err
}

// bytes downloads a file.
func (u *user) bytes(path string) ([]byte, error) {
	stream, err := u.client.Download(u.ctx, &filesystemv1.DownloadRequest{Path: u.at(path)})
	if err != nil {
		return nil, err
	}
	var data []byte
	ended := false
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if !ended {
				return nil, errors.New("the stream has no end message")
			}
			return data, nil
		}
		if err != nil {
			return nil, err
		}
		switch part := message.GetPart().(type) {
		case *filesystemv1.DownloadResponse_Chunk:
			data = append(data, part.Chunk...)
		case *filesystemv1.DownloadResponse_End:
			ended = part.End.GetSentBytes() == int64(len(data))
		}
	}
}

// holds fails unless the file has this content, byte for byte.
func (u *user) holds(path, want string) {
	u.Helper()
	got, err := u.bytes(path)
	if err != nil {
		u.Errorf("download %q: %v", path, err)
	} else if string(got) != want {
		u.Errorf("%q holds %q, want %q", path, clip(string(got)), clip(want))
	}
}

func (u *user) missing(path string) {
	u.Helper()
	_, err := u.stat(path)
	u.fails(err, errdefs.ErrNotFound, "PATH_NOT_FOUND")
}

func (u *user) remove(path string) {
	u.Helper()
	_, err := u.client.Delete(u.ctx, &filesystemv1.DeleteRequest{Path: u.at(path), Recursive: true})
	u.ok(err)
}

func clip(text string) string {
	if len(text) > 100 {
		return text[:100] + "…"
	}
	return text
}

// list returns the paths of a listing, directories with a slash at the end, in order.
func (u *user) list(path string, recursive bool, size int32) []string {
	u.Helper()
	var out []string
	for page := ""; ; {
		answer, err := u.client.List(u.ctx, &filesystemv1.ListRequest{Path: u.at(path), Recursive: recursive, PageSize: size, PageToken: page})
		u.ok(err)
		for _, e := range answer.GetEntries() {
			name := u.own(e.GetPath())
			if e.GetKind() == filesystemv1.FileKind_FILE_KIND_DIRECTORY {
				name += "/"
			}
			out = append(out, name)
		}
		if page = answer.GetNextPageToken(); page == "" {
			return out
		}
	}
}

func (u *user) glob(req *filesystemv1.GlobRequest) []string {
	u.Helper()
	req.Path = u.at(req.GetPath())
	var out []string
	for {
		answer, err := u.client.Glob(u.ctx, req)
		u.ok(err)
		for _, e := range answer.GetEntries() {
			out = append(out, u.own(e.GetPath()))
		}
		if req.PageToken = answer.GetNextPageToken(); req.PageToken == "" {
			return out
		}
	}
}

func (u *user) grep(req *filesystemv1.GrepRequest) ([]*filesystemv1.Match, *filesystemv1.GrepEnd) {
	u.Helper()
	req.Path = u.at(req.GetPath())
	stream, err := u.client.Grep(u.ctx, req)
	u.ok(err)
	var out []*filesystemv1.Match
	var end *filesystemv1.GrepEnd
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			if end == nil {
				u.Fatalf("a search without an end message")
			}
			return out, end
		}
		u.ok(err)
		if end != nil {
			u.Fatalf("something follows the end message")
		}
		if m := message.GetMatch(); m != nil {
			m.Path = u.own(m.GetPath())
			out = append(out, m)
		}
		end = message.GetEnd()
	}
}
