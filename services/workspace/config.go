package workspace

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gantry-agents/gantry/libs/config"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/backend/manifest"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
)

// DefaultAddress is where the service serves when nothing else is said.
const DefaultAddress = "127.0.0.1:7402"

// Config holds the settings of the workspace service.
type Config struct {
	Data       string            `name:"data" help:"Directory of the service's own data: buckets, database, journal." default:"./.gantry/workspace/.gantry-runtime"`
	Backend    string            `name:"backend" help:"Where buckets are kept: local (plain files), sqlite, postgres, redis, object." enum:"local,sqlite,postgres,redis,object" default:"local"`
	Journal    string            `name:"journal-backend" help:"Where the journal of threads is kept: sqlite, postgres. Blank: postgres when that is the backend of the buckets, else sqlite." enum:",sqlite,postgres" default:""`
	Postgres   config.Secret     `name:"postgres-dsn" help:"DSN of the PostgreSQL that keeps the buckets or the journal."`
	Redis      config.Secret     `name:"redis-url" help:"URL of the Redis that keeps the buckets: redis://[user:password@]host:port[/database]."`
	Object     string            `name:"object-url" help:"URL of the bucket of an object store that keeps the buckets: s3://NAME?region=REGION, gs://NAME, azblob://CONTAINER. Credentials come from the environment."`
	CacheBytes int64             `name:"cache-bytes" help:"Memory for recently read contents of the backends redis and object, and as much again for their listings." default:"268435456"`
	Workspace  string            `name:"workspace" help:"Workspace directory of the default agent. Blank: ./.gantry/workspace." default:"./.gantry/workspace"`
	Workspaces string            `name:"workspaces" help:"Directory whose subdirectories are the workspaces of the agents of their names."`
	Agents     map[string]string `name:"agents" help:"Further workspaces, as agent=directory." mapsep:","`
	MaxBytes   int64             `name:"bucket-max-bytes" help:"Bytes that one bucket may hold. 0: no limit." default:"10737418240"`
	MaxFiles   int64             `name:"bucket-max-files" help:"Files that one bucket may hold. 0: no limit." default:"200000"`
	MaxFile    int64             `name:"file-max-bytes" help:"Size that one file may have. 0: no limit." default:"2147483648"`
	Routes     map[string]string `name:"route" help:"Directories or files of every bucket that are kept on another backend, as prefix=backend. The longest prefix wins." mapsep:","`
	ImportDirs []string          `name:"import-dirs" help:"Directories below which AgentScope workspaces may be imported. None: imports are refused."`

	HistoryCount   int           `name:"history-count" help:"Previous revisions of a file that are kept. 0: none." default:"20"`
	HistoryAge     time.Duration `name:"history-age" help:"How long a revision is kept after it was replaced or deleted. 0: no limit." default:"720h"`
	HistoryMaxFile int64         `name:"history-max-file-bytes" help:"Size up to which a file's previous revisions are kept. 0: no limit." default:"16777216"`
}

// minCacheBytes is the least memory with which the backends redis and object can work.
const minCacheBytes = 1 << 20

// maxHistoryCount bounds history-count: each write counts what is kept of its file.
const maxHistoryCount = 1000

// history is the policy by which previous revisions are kept.
func (c Config) history() files.History {
	return files.History{Count: c.HistoryCount, Age: c.HistoryAge, MaxFileBytes: c.HistoryMaxFile}
}

// defaultWorkspace is the workspace directory when nothing names one.
const defaultWorkspace = "./.gantry/workspace"

// DefaultConfig gives the defaults, which the tags state too.
func DefaultConfig() Config {
	kept := files.DefaultHistory()
	return Config{
		Data: "./.gantry/workspace/.gantry-runtime", Backend: BackendLocal, Workspace: defaultWorkspace, MaxBytes: 10 << 30, MaxFiles: 200_000, MaxFile: 2 << 30, CacheBytes: manifest.DefaultCacheBytes,
		HistoryCount: kept.Count, HistoryAge: kept.Age, HistoryMaxFile: kept.MaxFileBytes,
	}
}

// Validate checks the settings.
func (c Config) Validate() error {
	var errs []error
	if c.Data == "" {
		errs = append(errs, errors.New("workspace: data names no directory"))
	}
	if _, ok := backends[c.Backend]; !ok {
		errs = append(errs, fmt.Errorf("workspace: backend is %q, not one of %s", c.Backend, strings.Join(slices.Sorted(maps.Keys(backends)), ", ")))
	}
	errs = append(errs, c.validateRoutes()...)
	if _, ok := journals[c.journalBackend()]; !ok {
		errs = append(errs, fmt.Errorf("workspace: journal-backend is %q, not one of %s", c.Journal, strings.Join(slices.Sorted(maps.Keys(journals)), ", ")))
	}
	if (c.uses(BackendPostgres) || c.journalBackend() == BackendPostgres) && c.Postgres.Reveal() == "" {
		errs = append(errs, errors.New("workspace: postgres-dsn is needed where PostgreSQL keeps the buckets or the journal"))
	}
	if c.uses(BackendRedis) && c.Redis.Reveal() == "" {
		errs = append(errs, errors.New("workspace: backend redis needs redis-url, as in redis://localhost:6379/0"))
	}
	if c.uses(BackendObject) && c.Object == "" {
		errs = append(errs, errors.New("workspace: backend object needs object-url, as in s3://NAME?region=eu-central-1, gs://NAME or azblob://CONTAINER"))
	}
	if c.CacheBytes < minCacheBytes {
		errs = append(errs, fmt.Errorf("workspace: cache-bytes is %d; it must be %d at least", c.CacheBytes, minCacheBytes))
	}
	if c.MaxBytes < 0 || c.MaxFiles < 0 || c.MaxFile < 0 {
		errs = append(errs, errors.New("workspace: a quota is negative; 0 means no limit"))
	}
	if c.HistoryCount < 0 || c.HistoryCount > maxHistoryCount {
		errs = append(errs, fmt.Errorf("workspace: history-count is %d, not between 0 and %d", c.HistoryCount, maxHistoryCount))
	}
	if c.HistoryAge < 0 || c.HistoryMaxFile < 0 {
		errs = append(errs, errors.New("workspace: history-age or history-max-file-bytes is negative; 0 means no limit"))
	}
	for _, dir := range c.ImportDirs {
		if strings.TrimSpace(dir) == "" {
			errs = append(errs, errors.New("workspace: import-dirs names a directory that is blank"))
		}
	}
	for agent, dir := range c.Agents {
		if err := identity.ValidateID("agent", agent); err != nil {
			errs = append(errs, fmt.Errorf("workspace: %w", err))
		}
		if dir == "" {
			errs = append(errs, fmt.Errorf("workspace: agent %q has no directory", agent))
		}
	}
	return errors.Join(errs...)
}

// directories returns the workspace directories as absolute paths, which links and changes of the working directory don't move.
func (c Config) directories() (workspace, root string, agents map[string]string, err error) {
	if workspace = strings.TrimSpace(c.Workspace); workspace == "" {
		workspace = defaultWorkspace
	}
	if workspace, err = filepath.Abs(workspace); err != nil {
		return "", "", nil, err
	}
	if c.Workspaces != "" {
		if root, err = filepath.Abs(c.Workspaces); err != nil {
			return "", "", nil, err
		}
	}
	agents = make(map[string]string, len(c.Agents))
	for agent, dir := range c.Agents {
		if agents[agent], err = filepath.Abs(dir); err != nil {
			return "", "", nil, err
		}
	}
	return workspace, root, agents, nil
}

// importDirs returns the directories of imports as absolute paths.
func (c Config) importDirs() ([]string, error) {
	out := make([]string, len(c.ImportDirs))
	for i, dir := range c.ImportDirs {
		var err error
		if out[i], err = filepath.Abs(dir); err != nil {
			return nil, err
		}
	}
	return out, nil
}
