package importer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
)

const agentsDir = "agents"

// static are the first names that engineers keep: the template shows them.
var static = map[string]bool{"AGENTS.md": true, "tools.json": true, "knowledge": true, "skills": true, "subagents": true, "agent.yaml": true, fsops.IgnoreFile: true}

// runtime are the first names that runs write.
var runtime = map[string]bool{"MEMORY.md": true, "memory": true, "plans": true, "large_tool_results": true, agentsDir: true}

// housekeeping are the first names that have no meaning for Gantry, with the reason.
var housekeeping = map[string]string{
	".index":              "an index of files, which Gantry makes itself",
	".skills-cache":       "a cache of skills",
	".agentscope":         "queues of the old runtime",
	".agentscope-runtime": "a journal in a format that is not read; the logs under agents/ are",
	fsops.ReservedName:    "data of a Gantry",
	"rules":               "a name that was reserved and has no meaning",
}

// owner is one user, or nobody: what lies at the top of the workspace.
type owner struct {
	// prefix of its paths in the report. "": the top.
	prefix string
	user   string
	root   *os.Root
	target Target
	// inPlace says that the workspace is the directory of the agent's template.
	inPlace bool
	// agent is the id under agents/ that is the agent's. "": none.
	agent string
	// ledgers are the ledgers that the bucket has as they are in the workspace.
	ledgers map[string]ledger
}

// ledger is what is known of one.
type ledger struct {
	size    int64
	sum     string
	changed time.Time
}

func (o *owner) shown(p string) string { return path.Join(o.prefix, p) }

// owners calls fn for the top of the workspace, then for each user. fn closes the root of the owner.
func (w *work) owners(ctx context.Context, fn func(*owner) error) error {
	bucket := identity.Bucket{Tenant: w.req.Tenant, Scope: identity.ScopeAgent, Agent: w.req.Agent}
	top, err := w.open(ctx, bucket, ".")
	if err != nil {
		return err
	}
	entries, err := w.entriesOf(top, ".")
	if err != nil {
		return errors.Join(err, top.root.Close())
	}
	var users []string
	for _, e := range entries {
		if w.isUser(top, e) {
			users = append(users, e.Name())
		}
	}
	if err := fn(top); err != nil {
		return err
	}
	for _, user := range users {
		if err := w.goOn(ctx); err != nil {
			return err
		}
		if err := identity.ValidateID("user", user); err != nil {
			w.report.leave(user, why(err))
			continue
		}
		o, err := w.open(ctx, identity.Bucket{Tenant: w.req.Tenant, Scope: identity.ScopeUser, Agent: w.req.Agent, User: user}, user)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errLink) {
			w.report.leave(user, "it has changed meanwhile")
			continue
		}
		if err != nil {
			return err
		}
		if err := fn(o); err != nil {
			return err
		}
	}
	return nil
}

var errLink = errors.New("not the directory that was looked at")

// open opens the directory of an owner by a handle of its own.
func (w *work) open(ctx context.Context, bucket identity.Bucket, dir string) (*owner, error) {
	target, err := w.Open(ctx, bucket)
	if err != nil {
		return nil, err
	}
	o := &owner{user: bucket.User, target: target, inPlace: w.isHere(target.Template), ledgers: map[string]ledger{}}
	if dir != "." {
		o.prefix = dir
	}
	seen, err := w.root.Lstat(dir)
	if err != nil {
		return nil, err
	}
	if o.root, err = w.root.OpenRoot(dir); err != nil {
		return nil, err
	}
	if now, err := o.root.Stat("."); err != nil || !seen.IsDir() || !os.SameFile(seen, now) {
		return nil, errors.Join(errLink, o.root.Close())
	}
	o.agent, err = w.agentOf(o)
	if err != nil {
		return nil, errors.Join(err, o.root.Close())
	}
	return o, nil
}

// isHere says whether a directory is the workspace that is imported.
func (w *work) isHere(dir string) bool {
	if dir == "" {
		return false
	}
	a, err := os.Stat(dir)
	if err != nil {
		return false
	}
	b, err := w.root.Stat(".")
	return err == nil && os.SameFile(a, b)
}

// isUser says whether an entry at the top is a user's directory, and lists what is neither that nor something else that is known.
func (w *work) isUser(top *owner, e fs.DirEntry) bool {
	name := e.Name()
	if reason, ok := housekeeping[name]; ok {
		w.report.leave(name, reason)
		return false
	}
	switch {
	case runtime[name]:
		return false
	case static[name]:
		if !top.inPlace {
			w.report.leave(name, "it stays the template: name the directory as the workspace of the agent, and it works as it is")
		}
		return false
	case top.inPlace && top.target.Taken(name):
		return false
	case e.Type()&fs.ModeSymlink != 0:
		w.report.leave(name, "a link")
		return false
	case !e.IsDir():
		w.report.leave(name, "it belongs to no user")
		return false
	case strings.HasPrefix(name, "."):
		w.report.leave(name, "a hidden directory")
		return false
	}
	for known := range static {
		if _, err := w.root.Lstat(path.Join(name, known)); err == nil {
			return true
		}
	}
	for known := range runtime {
		if _, err := w.root.Lstat(path.Join(name, known)); err == nil {
			return true
		}
	}
	w.report.leave(name, "no user's directory: it has none of the names of a workspace in it")
	return false
}

// agentOf finds which directory under agents/ is the agent's: that of its id, else the only one, for ids in AgentScope are names that may differ.
func (w *work) agentOf(o *owner) (string, error) {
	info, err := o.root.Lstat(agentsDir)
	if err != nil || !info.IsDir() {
		return "", nil
	}
	entries, err := w.entriesOf(o, agentsDir)
	if err != nil {
		return "", err
	}
	var ids []string
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		if e.Name() == w.req.Agent {
			return e.Name(), nil
		}
		for _, own := range []string{"sessions", "memory"} { // a subagent has a workspace only
			if _, err := o.root.Lstat(path.Join(agentsDir, e.Name(), own)); err == nil {
				ids = append(ids, e.Name())
				break
			}
		}
	}
	if len(ids) == 1 {
		return ids[0], nil
	}
	return "", nil
}

// entriesOf lists a directory, ordered by name. What can't be read is left out and listed.
func (w *work) entriesOf(o *owner, dir string) ([]fs.DirEntry, error) {
	f, err := o.root.Open(dir)
	if err != nil {
		w.report.leave(o.shown(dir), "it can't be read")
		return nil, nil
	}
	defer f.Close()
	var out []fs.DirEntry
	for {
		some, err := f.ReadDir(1000)
		for range some {
			if err := w.look(); err != nil {
				return nil, err
			}
		}
		out = append(out, some...)
		if err != nil || len(some) == 0 {
			break
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

func alsoAgent(id string) string {
	return fmt.Sprintf("it belongs to the agent %q: import it for that one", shown(id))
}
