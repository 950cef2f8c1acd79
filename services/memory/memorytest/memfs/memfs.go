// Package memfs is a small FilesystemService in memory, for tests of what builds on files. It keeps what the contract promises for the RPCs that it has:
// revisions, conditions, appends in one piece, change sets, effect ids, listings by path. It has no layers, no history and no watch, and says so.
package memfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	filesystemv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	"github.com/gantry-agents/gantry/libs/effect"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
)

// Faults are ways to be broken, by which a suite is shown to notice.
type Faults struct {
	// OneBucket: the bucket is ignored, everybody sees everything.
	OneBucket bool
	// DropAppends: every third append is answered and not made.
	DropAppends bool
	// NoConditions: conditions of writes are ignored.
	NoConditions bool
	// NoChangeSets: ApplyChanges is not there, which is no fault but a capability that is missing.
	NoChangeSets bool
}

// Service is the service.
type Service struct {
	filesystemv1.UnimplementedFilesystemServiceServer
	faults Faults
	hook   atomic.Pointer[func(path string)]

	mu       sync.Mutex
	buckets  map[string]*bucket
	sequence int64
	appends  int
}

type bucket struct {
	files   map[string]*file
	effects map[string]outcome
}

type file struct {
	content  []byte
	revision string
	modified time.Time
}

// outcome is what was answered under an effect id.
type outcome struct {
	request [32]byte
	answer  proto.Message
}

// New makes an empty service.
func New(faults Faults) *Service {
	return &Service{faults: faults, buckets: map[string]*bucket{}}
}

// BeforeWrite has f called before each write, and each write of a change set, is made; nil ends that.
func (s *Service) BeforeWrite(f func(path string)) {
	if f == nil {
		s.hook.Store(nil)
		return
	}
	s.hook.Store(&f)
}

func (s *Service) beforeWrite(path string) {
	if f := s.hook.Load(); f != nil {
		(*f)(path)
	}
}

// Files gives the paths and contents of a bucket, for looking behind the service.
func (s *Service) Files(b identity.Bucket) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]string{}
	for path, f := range s.bucket(b.Key()).files {
		out[path] = string(f.content)
	}
	return out
}

func (s *Service) bucket(key string) *bucket {
	if s.faults.OneBucket {
		key = ""
	}
	b := s.buckets[key]
	if b == nil {
		b = &bucket{files: map[string]*file{}, effects: map[string]outcome{}}
		s.buckets[key] = b
	}
	return b
}

// of gives the bucket of a call. The caller holds mu.
func (s *Service) of(ctx context.Context) (*bucket, error) {
	b, err := identity.BucketFromContext(ctx)
	if err != nil {
		return nil, err
	}
	return s.bucket(b.Key()), nil
}

func (f *file) info(path string) *filesystemv1.FileInfo {
	sum := sha256.Sum256(f.content)
	return &filesystemv1.FileInfo{
		Path: path, Kind: filesystemv1.FileKind_FILE_KIND_FILE, SizeBytes: int64(len(f.content)), ModifyTime: timestamppb.New(f.modified),
		Revision: f.revision, Sha256: hex.EncodeToString(sum[:]), Layer: filesystemv1.Layer_LAYER_BUCKET, Mode: 0o644,
	}
}

// once makes a change under the effect id of the call: a repeat gets the recorded answer.
func once[A proto.Message](ctx context.Context, s *Service, request proto.Message, change func(*bucket) (A, error)) (A, error) {
	var none A
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.of(ctx)
	if err != nil {
		return none, err
	}
	id, _ := identity.FromContext(ctx)
	if id.Effect == "" {
		return change(b)
	}
	if err := effect.Check(id.Effect, time.Now()); err != nil {
		return none, err
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(request)
	if err != nil {
		return none, err
	}
	sum := sha256.Sum256(append([]byte(request.ProtoReflect().Descriptor().FullName()+"\x00"), data...))
	if known, ok := b.effects[id.Effect]; ok {
		if known.request != sum {
			return none, fsops.ErrEffectMismatch(id.Effect)
		}
		return known.answer.(A), nil
	}
	answer, err := change(b)
	if err == nil {
		b.effects[id.Effect] = outcome{sum, answer}
	}
	return answer, err
}

// put stores content as a new revision. The caller holds mu.
func (s *Service) put(b *bucket, path string, content []byte) *filesystemv1.FileInfo {
	s.sequence++
	f := &file{content: content, revision: fmt.Sprintf("r%d", s.sequence), modified: time.Now()}
	b.files[path] = f
	return f.info(path)
}

func (s *Service) cursor() string { return fmt.Sprint(s.sequence) }

// isDirectory says whether something lies below the path. The caller holds mu.
func (b *bucket) isDirectory(path string) bool {
	for p := range b.files {
		if path == "" || strings.HasPrefix(p, path+"/") {
			return true
		}
	}
	return path == ""
}

// find gives a file. The caller holds mu.
func (b *bucket) find(text string) (string, *file, error) {
	p, err := fsops.ParsePath(text)
	if err != nil {
		return "", nil, err
	}
	f := b.files[p.String()]
	switch {
	case f != nil:
		return p.String(), f, nil
	case b.isDirectory(p.String()):
		return "", nil, fsops.ErrIsDirectory(p.String())
	}
	return "", nil, fsops.ErrNotFound(p.String())
}

// sorted gives the paths below a directory. The caller holds mu.
func (b *bucket) sorted(dir string) []string {
	var out []string
	for p := range b.files {
		if dir == "" || strings.HasPrefix(p, dir+"/") {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}
