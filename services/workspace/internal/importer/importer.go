package importer

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/journal"
)

// Domain of the reasons of this package.
const Domain = "gantry.workspace.v1"

// The reasons of this package's errors.
const (
	ReasonNotAllowed = "IMPORT_NOT_ALLOWED"
	ReasonUnreadable = "IMPORT_UNREADABLE"
)

const (
	// maxEntries bounds how many entries of the directory are looked at.
	maxEntries = 1_000_000
	// reserve is the part of the time that is kept for ending in good order, at most maxReserve.
	reserve    = 0.1
	maxReserve = 2 * time.Second
)

// Target is where what one owner has goes.
type Target struct {
	// View of the owner's bucket over its layers.
	View *files.View
	// Template is the directory that is the agent's template. "": none, or stored.
	Template string
	// Taken says whether a first name of the template means something else than a user.
	Taken func(name string) bool
	// Mounted says that the bucket is the template's directory itself.
	Mounted bool
}

// Importer imports workspaces.
type Importer struct {
	// Dirs are the directories below which workspaces may lie, as absolute paths. None: nothing may be imported.
	Dirs []string
	// Store keeps the buckets.
	Store files.Store
	// Journal keeps the threads.
	Journal journal.Store
	// Open gives the target of a bucket.
	Open func(ctx context.Context, bucket identity.Bucket) (Target, error)
	// Encode makes the events of a thread.
	Encode Encoder
	// MaxFileBytes bounds one file. 0: no limit.
	MaxFileBytes int64
}

// Request names what to import.
type Request struct {
	// Directory of the workspace, absolute.
	Directory string
	// Tenant and Agent that it becomes.
	Tenant, Agent string
	// Author of what is written.
	Author string
	// DryRun only reports.
	DryRun bool
}

// Import takes a workspace over. Its errors are those of the stores, and IMPORT_NOT_ALLOWED and IMPORT_UNREADABLE.
func (i *Importer) Import(ctx context.Context, req Request) (Report, error) {
	root, err := i.openRoot(req.Directory)
	if err != nil {
		return Report{}, err
	}
	defer root.Close()
	w := &work{Importer: i, req: req, root: root, until: until(ctx)}
	err = errors.Join(w.run(ctx), w.leaveThreads(ctx))
	switch {
	case errors.Is(err, errTime):
		w.report.More, err = true, nil
	case errors.Is(err, errFull):
		err = nil
	}
	return w.report, err
}

// openRoot opens a directory that lies below an allowed one. It is resolved beneath the handle of that one, so that no link leads out.
func (i *Importer) openRoot(dir string) (*os.Root, error) {
	refused := errdefs.New(errdefs.ErrPermissionDenied, Domain, ReasonNotAllowed,
		"only workspaces below the directories of the setting import-dirs can be imported, and %q is not", shown(dir)).With("directory", shown(dir)).With("setting", "import-dirs")
	if !filepath.IsAbs(dir) {
		return nil, refused
	}
	for _, allowed := range i.Dirs {
		rel, err := filepath.Rel(allowed, filepath.Clean(dir))
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		parent, err := os.OpenRoot(allowed)
		if err != nil {
			return nil, unreadable(dir, err)
		}
		defer parent.Close()
		if info, err := parent.Lstat(rel); err != nil || !info.IsDir() {
			return nil, unreadable(dir, err)
		}
		root, err := parent.OpenRoot(rel)
		if err != nil {
			return nil, unreadable(dir, err)
		}
		return root, nil
	}
	return nil, refused
}

func unreadable(dir string, cause error) error {
	if cause == nil {
		cause = fs.ErrInvalid
	}
	return errdefs.New(errdefs.ErrFailedPrecondition, Domain, ReasonUnreadable, "%q is no directory that can be read: %w", shown(dir), cause).With("directory", shown(dir))
}

var (
	// errTime ends an import before its context does.
	errTime = errors.New("no time left")
	// errFull ends an import that has looked at as much as it may.
	errFull = errors.New("too many entries")
)

// until is when an import must end so that its report still arrives. Zero: never.
func until(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return deadline.Add(-min(maxReserve, time.Duration(reserve*float64(time.Until(deadline)))))
}

// work is one import.
type work struct {
	*Importer
	req     Request
	root    *os.Root
	until   time.Time
	entries int
	writer  *writer // nil until a thread is written
	report  Report
}

// run imports owner by owner.
func (w *work) run(ctx context.Context) error {
	return w.owners(ctx, func(o *owner) error {
		defer o.root.Close()
		if err := w.files(ctx, o); err != nil {
			return err
		}
		if err := w.watermark(ctx, o); err != nil {
			return err
		}
		return w.threads(ctx, o)
	})
}

// goOn is called before each piece of work.
func (w *work) goOn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !w.until.IsZero() && time.Now().After(w.until) {
		return errTime
	}
	return nil
}

// look counts an entry that is looked at.
func (w *work) look() error {
	if w.entries++; w.entries > maxEntries {
		w.report.leave(w.req.Directory, "it has over a million entries; the rest was not looked at")
		return errFull
	}
	return nil
}

// tolerable says whether an error concerns one file or thread only, so that the rest can go on.
func tolerable(err error) bool {
	for _, class := range []error{
		errdefs.ErrInvalidArgument, errdefs.ErrNotFound, errdefs.ErrAlreadyExists, errdefs.ErrFailedPrecondition, errdefs.ErrResourceExhausted, errdefs.ErrPermissionDenied, errdefs.ErrAborted,
	} {
		if errors.Is(err, class) && errdefs.ReasonOf(err) != "STORE_READ_ONLY" {
			return true
		}
	}
	return false
}

// why is the reason of a tolerable error for the report.
func why(err error) string {
	var typed *errdefs.Error
	if errors.As(err, &typed) {
		return typed.Message
	}
	return err.Error()
}
