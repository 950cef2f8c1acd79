package fstest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
)

func (u *user) upload(header *filesystemv1.UploadHeader, data []byte) (*filesystemv1.UploadResponse, error) {
	header.Path = u.at(header.GetPath())
	stream, err := u.client.Upload(u.ctx)
	if err != nil {
		return nil, err
	}
	err = stream.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Header{Header: header}})
	for err == nil && len(data) > 0 {
		n := min(len(data), 100_000)
		err = stream.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Chunk{Chunk: data[:n]}})
		data = data[n:]
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return stream.CloseAndRecv()
}

func transfer(u *user) {
	data := make([]byte, 3<<20)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	sum := sha256.Sum256(data)
	out, err := u.upload(&filesystemv1.UploadHeader{Path: "d/big.bin", Sha256: hex.EncodeToString(sum[:])}, data)
	u.ok(err)
	if !out.GetCreated() || out.GetInfo().GetSizeBytes() != int64(len(data)) {
		u.Errorf("upload: %v", out)
	}
	u.holds("d/big.bin", string(data))
	stream, err := u.client.Download(u.ctx, &filesystemv1.DownloadRequest{Path: u.at("d/big.bin"), OffsetBytes: int64(len(data)) - 10})
	u.ok(err)
	var parts []string
	var got []byte
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		u.ok(err)
		switch part := message.GetPart().(type) {
		case *filesystemv1.DownloadResponse_Header:
			parts = append(parts, "header")
		case *filesystemv1.DownloadResponse_Chunk:
			parts = append(parts, "chunk")
			got = append(got, part.Chunk...)
		case *filesystemv1.DownloadResponse_End:
			parts = append(parts, "end")
		}
	}
	if strings.Join(parts, " ") != "header chunk end" || string(got) != string(data[len(data)-10:]) {
		u.Errorf("the last ten bytes: %v %x", parts, got)
	}
	_, err = u.upload(&filesystemv1.UploadHeader{Path: "empty"}, nil)
	u.ok(err)
	u.holds("empty", "")
}

func transferRefused(u *user) {
	u.write("f", "old")
	_, err := u.upload(&filesystemv1.UploadHeader{Path: "f", Sha256: strings.Repeat("0", 64)}, []byte("new"))
	u.fails(err, errdefs.ErrAborted, "CHECKSUM_MISMATCH")
	_, err = u.upload(&filesystemv1.UploadHeader{Path: "f", Mode: filesystemv1.WriteMode_WRITE_MODE_CREATE}, []byte("new"))
	u.fails(err, errdefs.ErrAlreadyExists, "PATH_EXISTS")
	u.holds("f", "old")
	stream, err := u.client.Upload(u.ctx)
	u.ok(err)
	if err := stream.Send(&filesystemv1.UploadRequest{Part: &filesystemv1.UploadRequest_Chunk{Chunk: []byte("x")}}); err != nil && !errors.Is(err, io.EOF) {
		u.ok(err)
	}
	if _, err := stream.CloseAndRecv(); err == nil {
		u.Error("an upload without a header was taken")
	}
	if _, err := u.bytes("none"); reason(err) != "PATH_NOT_FOUND" {
		u.Errorf("download of nothing: %v", err)
	}
}

// watched collects the paths of a watch until it ends.
func (u *user) watched(req *filesystemv1.WatchRequest) (paths []string, end string, err error) {
	stream, err := u.client.Watch(u.ctx, req)
	if err != nil {
		return nil, "", err
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return paths, end, nil
		}
		if err != nil {
			return nil, "", err
		}
		if c := message.GetChange(); c != nil {
			paths = append(paths, u.own(c.GetPath()))
		}
		if e := message.GetEnd(); e != nil {
			end = e.GetCursor()
		}
	}
}

func watch(u *user) {
	if !u.has.Watch {
		_, _, err := u.watched(&filesystemv1.WatchRequest{MaxWait: durationpb.New(0)})
		u.fails(err, errdefs.ErrUnimplemented, "CAPABILITY_MISSING")
		return
	}
	first := u.write("a", "1")
	u.write("b.md", "2")
	u.remove("b.md")
	none := durationpb.New(0)
	paths, end, err := u.watched(&filesystemv1.WatchRequest{Cursor: first.GetCursor(), MaxWait: none})
	u.ok(err)
	if strings.Join(paths, " ") != "b.md b.md" || end == "" {
		u.Errorf("after the first change: %q, end %q", paths, end)
	}
	u.write("c", "3")
	if paths, _, err = u.watched(&filesystemv1.WatchRequest{Cursor: end, MaxWait: none, Glob: "*.md"}); err != nil || len(paths) != 0 {
		u.Errorf("only *.md: %q, %v", paths, err)
	}
	if paths, _, err = u.watched(&filesystemv1.WatchRequest{Cursor: end, MaxWait: none}); err != nil || strings.Join(paths, " ") != "c" {
		u.Errorf("from where the first watch ended: %q, %v", paths, err)
	}
	stream, err := u.client.Watch(u.ctx, &filesystemv1.WatchRequest{MaxWait: durationpb.New(time.Minute)})
	u.ok(err)
	message, err := stream.Recv()
	u.ok(err)
	if message.GetStart() == nil {
		u.Errorf("the first message is %v", message)
	}
	u.write("live", "4")
	for {
		message, err := stream.Recv()
		u.ok(err)
		if c := message.GetChange(); c != nil {
			if u.own(c.GetPath()) != "live" || c.GetKind() != filesystemv1.ChangeKind_CHANGE_KIND_WRITTEN {
				u.Errorf("live: %v", c)
			}
			break
		}
	}
	_, _, err = u.watched(&filesystemv1.WatchRequest{Cursor: "nonsense", MaxWait: none})
	u.fails(err, errdefs.ErrInvalidArgument, "TOKEN_INVALID")
}

func layers(u *user) {
	if u.has.SomeLayers {
		return
	}
	template := filesystemv1.Layer_LAYER_TEMPLATE
	if !u.has.Layers {
		_, err := u.client.Write(u.ctx, &filesystemv1.WriteRequest{Path: u.at("knowledge/a.md"), Layer: template})
		if !errors.Is(err, errdefs.ErrUnimplemented) && reason(err) != "CAPABILITY_MISSING" {
			u.Errorf("a layer where there are none: %v", err)
		}
		return
	}
	for _, name := range []string{"knowledge/a.md", "knowledge/b.md", "skills/s/SKILL.md"} {
		_, err := u.client.Write(u.ctx, &filesystemv1.WriteRequest{Path: name, Content: []byte("template " + name), Layer: template})
		u.ok(err)
	}
	ben := u.as(func(to *identityOf) { to.User = "ben" })
	info, err := u.stat("knowledge/a.md")
	u.ok(err)
	if info.GetLayer() != template || info.GetShadows() {
		u.Errorf("a file of the template: %v", info)
	}
	_, err = u.edit("knowledge/a.md", &filesystemv1.Replacement{OldText: "template", NewText: "ana's"})
	u.ok(err)
	u.holds("knowledge/a.md", "ana's knowledge/a.md")
	ben.holds("knowledge/a.md", "template knowledge/a.md")
	info, err = u.stat("knowledge/a.md")
	u.ok(err)
	if info.GetLayer() != filesystemv1.Layer_LAYER_BUCKET || !info.GetShadows() {
		u.Errorf("a copy of the bucket: %v", info)
	}
	u.remove("skills/s/SKILL.md")
	u.missing("skills/s/SKILL.md")
	u.missing("skills")
	if got := u.glob(&filesystemv1.GlobRequest{Pattern: "**"}); strings.Join(got, " ") != "knowledge/a.md knowledge/b.md" {
		u.Errorf("glob after a deletion: %q", got)
	}
	if got, _ := u.grep(&filesystemv1.GrepRequest{Pattern: "template"}); lines(got) != "knowledge/b.md:1:1:template knowledge/b.md" {
		u.Errorf("grep finds what is hidden: %s", lines(got))
	}
	ben.holds("skills/s/SKILL.md", "template skills/s/SKILL.md")
	u.write("skills/s/SKILL.md", "again")
	u.holds("skills/s/SKILL.md", "again")
	only, err := u.client.List(u.ctx, &filesystemv1.ListRequest{Path: "knowledge", Layer: template})
	u.ok(err)
	if len(only.GetEntries()) != 2 {
		u.Errorf("the template alone: %v", only)
	}
}
