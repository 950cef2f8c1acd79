package templates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/disktree"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// maxSettingsBytes bounds agent.yaml.
const maxSettingsBytes = 1 << 20

// Config names the directories that are templates. They belong to the default tenant.
type Config struct {
	// Workspace is the directory of the default agent. "": none.
	Workspace string
	// Root holds a directory for each agent, named by the agent's encoded id. "": none.
	Root string
	// Agents are further directories by agent id. They win over Root.
	Agents map[string]string
}

// Templates finds the templates of agents.
type Templates struct {
	cfg   Config
	store files.Store

	mu    sync.Mutex
	roots map[string]openRoot
}

// openRoot is a root handle and the directory that it was opened on: another one may take its place, as when a synchronised directory is swapped.
type openRoot struct {
	root *os.Root
	info fs.FileInfo
}

// New returns the templates of a configuration and of a store.
func New(cfg Config, store files.Store) *Templates {
	return &Templates{cfg: cfg, store: store, roots: map[string]openRoot{}}
}

// Kind is how a template is kept.
type Kind uint8

const (
	// KindNone: the agent has no template.
	KindNone Kind = iota
	// KindDirectory is a directory of the host.
	KindDirectory
	// KindStored is in the store.
	KindStored
)

// Template is the template of one agent.
type Template struct {
	// Agent id.
	Agent string
	// Kind of the template.
	Kind Kind
	// Directory of KindDirectory.
	Directory string
	// Shared is the tree that all users see; nil for KindNone.
	Shared files.Tree

	include include
	root    *os.Root   // of KindDirectory
	whole   files.Tree // of KindStored
}

// Directory returns the directory that is configured for an agent, whether it exists or not.
func (t *Templates) Directory(tenant, agent string) (string, bool) {
	if tenant != identity.DefaultTenant {
		return "", false
	}
	if dir, ok := t.cfg.Agents[agent]; ok {
		return dir, true
	}
	if agent == identity.DefaultAgent && t.cfg.Workspace != "" {
		return t.cfg.Workspace, true
	}
	if t.cfg.Root != "" {
		names := []string{identity.EncodeSegment(agent)}
		if plainName(agent) {
			names = append(names, agent)
		}
		for _, name := range names {
			dir := filepath.Join(t.cfg.Root, filepath.FromSlash(name))
			if info, err := os.Stat(dir); err == nil && info.IsDir() {
				return dir, true
			}
		}
	}
	return "", false
}

// Of returns the template of an agent. One that has none is KindNone, and no error.
func (t *Templates) Of(ctx context.Context, tenant, agent string) (Template, error) {
	if dir, ok := t.Directory(tenant, agent); ok {
		root, err := t.open(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return Template{}, errdefs.Wrap(err, errdefs.ErrUnavailable, fsops.Domain, "", "the template's directory can't be opened")
		default:
			out := Template{Agent: agent, Kind: KindDirectory, Directory: dir, root: root}
			out.include = settingsOf(ctx, disktree.New(root, nil))
			out.Shared = disktree.New(root, out.include.visible)
			return out, nil
		}
	}
	space := files.TemplateSpace(tenant, agent)
	used, err := t.store.Usage(ctx, space)
	if err != nil || used.Files == 0 {
		return Template{Agent: agent}, err
	}
	out := Template{Agent: agent, Kind: KindStored, whole: t.store.Space(space)}
	out.include = settingsOf(ctx, out.whole)
	out.Shared = subtree{Tree: out.whole, visible: out.include.visible}
	return out, nil
}

// User returns the overrides of a user; nil when there are none.
func (t Template) User(ctx context.Context, user string) (files.Tree, error) {
	if user == "" || t.Kind == KindNone {
		return nil, nil
	}
	for _, dir := range t.include.userDirs(user) {
		if t.Kind == KindDirectory {
			if sub, err := t.root.OpenRoot(filepath.FromSlash(dir)); err == nil {
				return disktree.New(sub, userVisible), nil
			}
			continue
		}
		base := fsops.PathOf(dir)
		nodes, err := t.whole.Get(ctx, base)
		if err != nil {
			return nil, err
		}
		if nodes[0].Kind == files.KindDir {
			return subtree{Tree: t.whole, base: base, visible: userVisible}, nil
		}
	}
	return nil, nil
}

// Whole is everything of the template that may be shown to those who manage agents: of a stored one the users' overrides too.
func (t Template) Whole() files.Tree {
	if t.Kind == KindStored {
		return t.whole
	}
	return t.Shared
}

// Taken says whether a first name of the template means something else than the directory of a user.
func (t Template) Taken(name string) bool { return t.include.taken(name) }

// Include returns the globs of agent.yaml's template.include.
func (t Template) Include() []string { return t.include.patterns }

// UserDir is the path in a stored template below which a user's overrides are written.
func (t Template) UserDir(user string) fsops.Path { return fsops.PathOf(t.include.userDirs(user)[0]) }

// Lower returns the layers below a bucket, highest first.
func (t *Templates) Lower(ctx context.Context, bucket identity.Bucket, agent string) ([]files.Lower, Template, error) {
	template, err := t.Of(ctx, bucket.Tenant, agent)
	if err != nil || template.Kind == KindNone {
		return nil, template, err
	}
	var lower []files.Lower
	if bucket.Scope == identity.ScopeUser || bucket.Scope == identity.ScopeSession {
		user, err := template.User(ctx, bucket.User)
		if err != nil {
			return nil, template, err
		}
		if user != nil {
			lower = append(lower, files.Lower{Layer: files.LayerUser, Tree: user})
		}
	}
	return append(lower, files.Lower{Layer: files.LayerTemplate, Tree: template.Shared}), template, nil
}

// open returns the root handle of a directory.
func (t *Templates) open(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if have, ok := t.roots[dir]; ok && os.SameFile(have.info, info) {
		return have.root, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	// A root that is replaced stays open for calls that use it, until the collector finds it.
	t.roots[dir] = openRoot{root: root, info: info}
	return root, nil
}

// Close closes the root handles.
func (t *Templates) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all error
	for dir, r := range t.roots {
		all = errors.Join(all, r.root.Close())
		delete(t.roots, dir)
	}
	return all
}

// settingsOf reads what a template includes from its agent.yaml. A file that can't be read includes nothing; the definition reports it.
func settingsOf(ctx context.Context, tree files.Tree) include {
	nodes, err := tree.Get(ctx, fsops.PathOf(SettingsFile))
	if err != nil || nodes[0].Kind != files.KindFile || nodes[0].Size > maxSettingsBytes {
		return include{}
	}
	data, err := tree.Load(ctx, nodes[0])
	if err != nil || data[0] == nil {
		return include{}
	}
	var settings struct {
		Template struct {
			Include []string `yaml:"include"`
		} `yaml:"template"`
	}
	if yaml.Unmarshal(data[0], &settings) != nil {
		return include{}
	}
	in, err := newInclude(settings.Template.Include)
	if err != nil {
		return include{}
	}
	return in
}

// List returns a tenant's agents that have a template and come after an id, ordered by id, at most limit.
func (t *Templates) List(ctx context.Context, tenant, after string, limit int) ([]Template, error) {
	ids := map[string]bool{}
	if tenant == identity.DefaultTenant {
		t.configured(ids)
	}
	prefix := files.TemplatePrefix(tenant)
	for from := files.Space(""); ; {
		spaces, err := t.store.Spaces(ctx, prefix, from, 1000)
		if err != nil {
			return nil, err
		}
		for _, s := range spaces {
			if id, err := identity.DecodeSegment(string(s[len(prefix):])); err == nil {
				ids[id] = true
			}
			from = s
		}
		if len(spaces) < 1000 {
			break
		}
	}
	var out []Template
	for id := range ids {
		if id <= after {
			continue
		}
		template, err := t.Of(ctx, tenant, id)
		if err != nil {
			return nil, fmt.Errorf("template of agent %q: %w", id, err)
		}
		if template.Kind != KindNone {
			out = append(out, template)
		}
	}
	slices.SortFunc(out, func(a, b Template) int { return cmp.Compare(a.Agent, b.Agent) })
	return out[:min(len(out), limit)], nil
}

// configured adds the agents whose directories are configured.
func (t *Templates) configured(ids map[string]bool) {
	if t.cfg.Workspace != "" {
		ids[identity.DefaultAgent] = true
	}
	for id := range t.cfg.Agents {
		ids[id] = true
	}
	if t.cfg.Root == "" {
		return
	}
	entries, err := os.ReadDir(t.cfg.Root)
	if err != nil {
		return
	}
	for _, e := range entries {
		if id, ok := AgentOf(e.Name()); ok && e.IsDir() && holdsLayout(filepath.Join(t.cfg.Root, e.Name())) {
			ids[id] = true
		}
	}
}

// holdsLayout says whether a directory beside workspaces is one itself: it has at least one name of the layout. Others, such as scripts, are not listed.
func holdsLayout(dir string) bool {
	for name := range sharedNames {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil && name != fsops.IgnoreFile {
			return true
		}
	}
	return false
}

// AgentOf returns the agent whose workspace a directory of that name is, where each subdirectory is one.
func AgentOf(name string) (string, bool) {
	if id, err := identity.DecodeSegment(name); err == nil && id != "" {
		return id, true
	}
	return name, plainName(name)
}
