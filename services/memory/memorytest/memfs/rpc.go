package memfs

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/grpc"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/fsops"
)

// GetCapabilities says what is there.
func (s *Service) GetCapabilities(context.Context, *filesystemv1.GetCapabilitiesRequest) (*filesystemv1.GetCapabilitiesResponse, error) {
	return &filesystemv1.GetCapabilitiesResponse{RevisionsGuardAllWriters: true, ChangeSets: !s.faults.NoChangeSets, Effects: true, Backend: "memory", ArbitraryNames: true}, nil
}

// Stat describes a file or directory.
func (s *Service) Stat(ctx context.Context, req *filesystemv1.StatRequest) (*filesystemv1.StatResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.of(ctx)
	if err != nil {
		return nil, err
	}
	p, err := fsops.ParsePath(req.GetPath())
	if err != nil {
		return nil, err
	}
	if f := b.files[p.String()]; f != nil {
		return &filesystemv1.StatResponse{Info: f.info(p.String())}, nil
	}
	if b.isDirectory(p.String()) {
		return &filesystemv1.StatResponse{Info: directory(p.String())}, nil
	}
	return nil, fsops.ErrNotFound(p.String())
}

func directory(path string) *filesystemv1.FileInfo {
	return &filesystemv1.FileInfo{Path: path, Kind: filesystemv1.FileKind_FILE_KIND_DIRECTORY, Layer: filesystemv1.Layer_LAYER_BUCKET, Mode: 0o755}
}

// List lists a directory.
func (s *Service) List(ctx context.Context, req *filesystemv1.ListRequest) (*filesystemv1.ListResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.of(ctx)
	if err != nil {
		return nil, err
	}
	dir, err := fsops.ParsePath(req.GetPath())
	if err != nil {
		return nil, err
	}
	after, err := fsops.PageAfter(req.GetPageToken(), "list", dir.String())
	if err != nil {
		return nil, err
	}
	if b.files[dir.String()] != nil {
		return nil, fsops.ErrNotADirectory(dir.String(), dir.String())
	}
	if !b.isDirectory(dir.String()) {
		return nil, fsops.ErrNotFound(dir.String())
	}
	entries := map[string]*filesystemv1.FileInfo{}
	for _, path := range b.sorted(dir.String()) {
		rest := strings.TrimPrefix(strings.TrimPrefix(path, dir.String()), "/")
		names := strings.Split(rest, "/")
		for depth := 1; depth < len(names) && (req.GetRecursive() || depth == 1); depth++ {
			d := dir.Join(strings.Join(names[:depth], "/")).String()
			entries[d] = directory(d)
		}
		if req.GetRecursive() || len(names) == 1 {
			entries[path] = b.files[path].info(path)
		}
	}
	out := &filesystemv1.ListResponse{}
	size := fsops.PageSize(req.GetPageSize())
	for _, path := range slices.Sorted(maps.Keys(entries)) {
		if after != "" && path <= after {
			continue
		}
		if len(out.Entries) == size {
			out.NextPageToken = fsops.PageToken(out.Entries[size-1].GetPath(), "list", dir.String())
			break
		}
		out.Entries = append(out.Entries, entries[path])
	}
	return out, nil
}

// Read reads a window.
func (s *Service) Read(ctx context.Context, req *filesystemv1.ReadRequest) (*filesystemv1.ReadResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.of(ctx)
	if err != nil {
		return nil, err
	}
	path, f, err := b.find(req.GetPath())
	if err != nil {
		return nil, err
	}
	window := fsops.WindowRequest{
		OffsetLines: req.GetOffsetLines(), OffsetBytes: req.GetOffsetBytes(), LimitLines: req.GetLimitLines(), LimitBytes: req.GetLimitBytes(),
	}
	read := fsops.ReadText
	if req.GetMode() == filesystemv1.ReadMode_READ_MODE_BYTES {
		read = fsops.ReadBytes
	}
	w, err := read(ctx, fsops.Bytes(f.content), window)
	if err != nil {
		return nil, err
	}
	out := &filesystemv1.ReadResponse{
		Info: f.info(path), StartLine: w.StartLine, LineCount: w.LineCount, StartByte: w.StartByte, NextOffsetBytes: w.NextByte,
		NextOffsetLines: w.NextLine, More: w.More, PartialLine: w.PartialLine, Binary: w.Binary, TotalLines: w.TotalLines,
	}
	if req.GetMode() == filesystemv1.ReadMode_READ_MODE_BYTES {
		out.Data = w.Data
	} else {
		out.Text, out.Replaced = w.Text()
	}
	return out, nil
}

// Download sends a file.
func (s *Service) Download(req *filesystemv1.DownloadRequest, stream grpc.ServerStreamingServer[filesystemv1.DownloadResponse]) error {
	s.mu.Lock()
	b, err := s.of(stream.Context())
	var path string
	var f *file
	if err == nil {
		path, f, err = b.find(req.GetPath())
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := stream.Send(&filesystemv1.DownloadResponse{Part: &filesystemv1.DownloadResponse_Header{Header: f.info(path)}}); err != nil {
		return err
	}
	rest := f.content[min(int(req.GetOffsetBytes()), len(f.content)):]
	sent := int64(len(rest))
	for chunk := range slices.Chunk(rest, 256<<10) {
		if err := stream.Send(&filesystemv1.DownloadResponse{Part: &filesystemv1.DownloadResponse_Chunk{Chunk: chunk}}); err != nil {
			return err
		}
	}
	return stream.Send(&filesystemv1.DownloadResponse{Part: &filesystemv1.DownloadResponse_End{End: &filesystemv1.DownloadEnd{SentBytes: sent}}})
}

// Write writes a file.
func (s *Service) Write(ctx context.Context, req *filesystemv1.WriteRequest) (*filesystemv1.WriteResponse, error) {
	s.beforeWrite(req.GetPath())
	return once(ctx, s, req, func(b *bucket) (*filesystemv1.WriteResponse, error) {
		path, created, err := s.check(b, req)
		if err != nil {
			return nil, err
		}
		info := s.put(b, path, bytes.Clone(req.GetContent()))
		return &filesystemv1.WriteResponse{Info: info, Created: created, Cursor: s.cursor()}, nil
	})
}

// check says whether a write may be made. The caller holds mu.
func (s *Service) check(b *bucket, req *filesystemv1.WriteRequest) (path string, created bool, err error) {
	p, err := fsops.ParseFilePath(req.GetPath())
	if err != nil {
		return "", false, err
	}
	f := b.files[p.String()]
	if s.faults.NoConditions {
		return p.String(), f == nil, nil
	}
	switch req.GetMode() {
	case filesystemv1.WriteMode_WRITE_MODE_CREATE:
		if f != nil {
			return "", false, fsops.ErrExists(p.String(), f.revision)
		}
	case filesystemv1.WriteMode_WRITE_MODE_IF_REVISION:
		if f == nil {
			return "", false, fsops.ErrNotFound(p.String())
		}
		if f.revision != req.GetIfRevision() {
			return "", false, fsops.ErrRevisionConflict(p.String(), f.revision, "somebody", f.modified)
		}
	}
	return p.String(), f == nil, nil
}

// Append adds to a file.
func (s *Service) Append(ctx context.Context, req *filesystemv1.AppendRequest) (*filesystemv1.AppendResponse, error) {
	return once(ctx, s, req, func(b *bucket) (*filesystemv1.AppendResponse, error) {
		p, err := fsops.ParseFilePath(req.GetPath())
		if err != nil {
			return nil, err
		}
		var content []byte
		if f := b.files[p.String()]; f != nil {
			content = bytes.Clone(f.content)
		}
		if req.GetEnsureNewline() && len(content) > 0 && content[len(content)-1] != '\n' {
			content = append(content, '\n')
		}
		offset := int64(len(content))
		if s.appends++; s.faults.DropAppends && s.appends%3 == 0 {
			return &filesystemv1.AppendResponse{OffsetBytes: offset, Cursor: s.cursor()}, nil
		}
		info := s.put(b, p.String(), append(content, req.GetContent()...))
		return &filesystemv1.AppendResponse{Info: info, OffsetBytes: offset, Cursor: s.cursor()}, nil
	})
}

// Delete removes a file or a directory.
func (s *Service) Delete(ctx context.Context, req *filesystemv1.DeleteRequest) (*filesystemv1.DeleteResponse, error) {
	return once(ctx, s, req, func(b *bucket) (*filesystemv1.DeleteResponse, error) {
		p, err := fsops.ParsePath(req.GetPath())
		if err != nil {
			return nil, err
		}
		gone := b.sorted(p.String())
		switch {
		case b.files[p.String()] != nil:
			gone = []string{p.String()}
		case len(gone) == 0 && !req.GetAllowMissing():
			return nil, fsops.ErrNotFound(p.String())
		case len(gone) > 0 && !req.GetRecursive():
			return nil, fsops.ErrDirectoryNotEmpty(p.String(), len(gone))
		}
		for _, path := range gone {
			delete(b.files, path)
		}
		s.sequence++
		return &filesystemv1.DeleteResponse{Files: int64(len(gone)), Cursor: s.cursor()}, nil
	})
}

// ApplyChanges makes a set of writes, all or none.
func (s *Service) ApplyChanges(ctx context.Context, req *filesystemv1.ApplyChangesRequest) (*filesystemv1.ApplyChangesResponse, error) {
	if s.faults.NoChangeSets {
		return nil, fsops.ErrCapabilityMissing("change_sets")
	}
	for _, c := range req.GetChanges() {
		s.beforeWrite(c.GetWrite().GetPath())
	}
	return once(ctx, s, req, func(b *bucket) (*filesystemv1.ApplyChangesResponse, error) {
		var paths []string
		for _, c := range req.GetChanges() {
			if c.GetWrite() == nil {
				return nil, fsops.ErrCapabilityMissing("changes other than writes")
			}
			path, _, err := s.check(b, c.GetWrite())
			if err != nil {
				return nil, err
			}
			paths = append(paths, path)
		}
		out := &filesystemv1.ApplyChangesResponse{}
		for i, c := range req.GetChanges() {
			out.Infos = append(out.Infos, s.put(b, paths[i], bytes.Clone(c.GetWrite().GetContent())))
		}
		out.Cursor = s.cursor()
		return out, nil
	})
}
