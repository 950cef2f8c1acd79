package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	workspacev1 "github.com/gantry-agents/gantry/gen/gantry/workspace/v1"
	"github.com/gantry-agents/gantry/libs/errdefs"
	"github.com/gantry-agents/gantry/libs/fsops"
	"github.com/gantry-agents/gantry/libs/identity"
	"github.com/gantry-agents/gantry/services/workspace/internal/files"
	"github.com/gantry-agents/gantry/services/workspace/internal/rpc/caller"
	"github.com/gantry-agents/gantry/services/workspace/internal/templates"
)

const (
	defaultAgents    = 100
	maxTemplateBytes = 12 << 20
)

// ListAgents implements the service. Agents that the credential does not reach are left out.
func (s *Server) ListAgents(ctx context.Context, req *workspacev1.ListAgentsRequest) (*workspacev1.ListAgentsResponse, error) {
	c, err := s.of(ctx)
	if err != nil {
		return nil, err
	}
	size := int(req.GetPageSize())
	if size <= 0 {
		size = defaultAgents
	}
	request := []string{"agents", c.tenant}
	after, err := fsops.PageAfter(req.GetPageToken(), request...)
	if err != nil {
		return nil, err
	}
	out := &workspacev1.ListAgentsResponse{}
	for {
		page, err := s.callers.Templates.List(ctx, c.tenant, after, size+1)
		if err != nil {
			return nil, err
		}
		for _, t := range page {
			after = t.Agent
			if !c.grantsAgent(t.Agent) {
				continue
			}
			if len(out.Agents) == size {
				out.NextPageToken = fsops.PageToken(out.Agents[size-1].Agent, request...)
				return out, nil
			}
			info, err := s.infoOf(ctx, t)
			if err != nil {
				return nil, err
			}
			out.Agents = append(out.Agents, info)
		}
		if len(page) <= size {
			return out, nil
		}
	}
}

// admin is a call that concerns templates and no bucket.
type admin struct {
	*caller.Caller
	tenant string
}

func (a admin) grantsAgent(agent string) bool { return a.Grant.AllowsAgent(agent) }

func (s *Server) of(ctx context.Context) (admin, error) {
	c, err := s.callers.OpenTenant(ctx)
	if err != nil {
		return admin{}, err
	}
	return admin{Caller: c, tenant: c.Identity.Tenant}, nil
}

// agent resolves a call that names an agent. One that the credential does not reach does not exist for the caller.
func (s *Server) agent(ctx context.Context, agent string) (admin, templates.Template, error) {
	c, err := s.of(ctx)
	if err != nil {
		return admin{}, templates.Template{}, err
	}
	if err := identity.ValidateID("agent", agent); err != nil {
		return admin{}, templates.Template{}, err
	}
	if !c.grantsAgent(agent) {
		return admin{}, templates.Template{}, errNoAgent(agent)
	}
	t, err := s.callers.Templates.Of(ctx, c.tenant, agent)
	return c, t, err
}

func errNoAgent(agent string) error {
	return fail(errdefs.ErrNotFound, "AGENT_NOT_FOUND", "agent %q has no template", agent).With("agent", agent)
}

func errDirectory(t templates.Template) error {
	return fail(errdefs.ErrFailedPrecondition, "TEMPLATE_IS_DIRECTORY", "the template of agent %q is the directory %s: change it there", t.Agent, t.Directory).
		With("agent", t.Agent).With("directory", t.Directory)
}

// infoOf describes a template.
func (s *Server) infoOf(ctx context.Context, t templates.Template) (*workspacev1.AgentInfo, error) {
	_, fingerprint, err := s.contents(ctx, t)
	if err != nil {
		return nil, err
	}
	kind := workspacev1.TemplateKind_TEMPLATE_KIND_STORED
	if t.Kind == templates.KindDirectory {
		kind = workspacev1.TemplateKind_TEMPLATE_KIND_DIRECTORY
	}
	return &workspacev1.AgentInfo{Agent: t.Agent, Kind: kind, Directory: t.Directory, Fingerprint: fingerprint}, nil
}

// contents lists the files of a template, and hashes their revisions. A stored template shows its users' overrides too.
func (s *Server) contents(ctx context.Context, t templates.Template) ([]files.Entry, string, error) {
	view := s.templateView(t)
	var out []files.Entry
	for token := ""; ; {
		page, err := view.List(ctx, fsops.Path{}, true, fsops.MaxPageSize, token)
		if err != nil {
			return nil, "", err
		}
		for _, e := range page.Entries {
			if e.Kind == files.KindFile {
				out = append(out, e)
			}
		}
		if token = page.Next; token == "" {
			return out, fingerprintOf(out), nil
		}
	}
}

func (s *Server) templateView(t templates.Template) *files.View {
	lower := []files.Lower{{Layer: files.LayerTemplate, Tree: t.Whole()}}
	return files.NewView(s.callers.Store, "", lower, files.Limits{}, s.callers.Now).Only(files.LayerTemplate)
}

// GetAgentTemplate implements the service.
func (s *Server) GetAgentTemplate(ctx context.Context, req *workspacev1.GetAgentTemplateRequest) (*workspacev1.GetAgentTemplateResponse, error) {
	_, t, err := s.agent(ctx, req.GetAgent())
	if err != nil {
		return nil, err
	}
	if t.Kind == templates.KindNone {
		return nil, errNoAgent(req.GetAgent())
	}
	info, err := s.infoOf(ctx, t)
	if err != nil {
		return nil, err
	}
	entries, _, err := s.contents(ctx, t)
	if err != nil {
		return nil, err
	}
	out := &workspacev1.GetAgentTemplateResponse{Info: info}
	view := s.templateView(t)
	var total int64
	for _, e := range entries {
		path, _ := fsops.Text(e.Path.String())
		f := &workspacev1.TemplateFile{Path: path, Mode: e.Mode}
		if !req.GetNamesOnly() {
			if total += e.Size; total > maxTemplateBytes {
				return nil, fsops.ErrTooLarge(maxTemplateBytes, total)
			}
			if _, f.Content, err = view.ReadAll(ctx, e.Path, maxTemplateBytes); err != nil {
				return nil, err
			}
		}
		out.Files = append(out.Files, f)
	}
	return out, nil
}

// PutAgentTemplate implements the service.
func (s *Server) PutAgentTemplate(ctx context.Context, req *workspacev1.PutAgentTemplateRequest) (*workspacev1.PutAgentTemplateResponse, error) {
	c, t, err := s.agent(ctx, req.GetAgent())
	if err != nil {
		return nil, err
	}
	if t.Kind == templates.KindDirectory {
		return nil, errDirectory(t)
	}
	call, err := c.Call("PutAgentTemplate", req)
	if err != nil {
		return nil, err
	}
	set, err := s.stageTemplate(ctx, req.GetFiles())
	defer func() {
		for _, f := range set {
			f.Content.Discard()
		}
	}()
	if err != nil {
		return nil, err
	}
	space := files.TemplateSpace(c.tenant, req.GetAgent())
	view := files.NewView(s.callers.Store, space, nil, files.Limits{}, s.callers.Now)
	created := false
	done, err := view.Replace(ctx, call, set, func(existing []files.Entry) error {
		created = len(existing) == 0
		fingerprint := fingerprintOf(existing)
		switch want := req.GetIfFingerprint(); {
		case want != "" && want != fingerprint:
			return fail(errdefs.ErrAborted, "FINGERPRINT_CONFLICT", "the template of agent %q was changed meanwhile", req.GetAgent()).
				With("agent", req.GetAgent()).With("fingerprint", fingerprint)
		case !created && !req.GetOverwrite() && want == "":
			return fail(errdefs.ErrAlreadyExists, "AGENT_EXISTS", "agent %q has a template; set overwrite to replace it", req.GetAgent()).With("agent", req.GetAgent())
		}
		return nil
	}, fingerprintOf)
	if err != nil {
		return nil, err
	}
	info := &workspacev1.AgentInfo{Agent: req.GetAgent(), Kind: workspacev1.TemplateKind_TEMPLATE_KIND_STORED, Fingerprint: done.State}
	return &workspacev1.PutAgentTemplateResponse{Info: info, Created: done.Created}, nil
}

// fingerprintOf hashes the revisions of the files of a template.
func fingerprintOf(all []files.Entry) string {
	sum := sha256.New()
	for _, e := range all {
		fmt.Fprintf(sum, "%q %s\n", e.Path.String(), e.Revision)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// stageTemplate checks and stages the files of a template. Two paths that name the same place are refused.
func (s *Server) stageTemplate(ctx context.Context, all []*workspacev1.TemplateFile) ([]files.File, error) {
	var set []files.File
	seen := map[string]bool{}
	var total int64
	for _, f := range all {
		p, err := fsops.ParseFilePath(f.GetPath())
		if err != nil {
			return set, err
		}
		if seen[p.Key()] {
			return set, fsops.ErrExists(p.String(), "")
		}
		seen[p.Key()] = true
		if total += int64(len(f.GetContent())); total > maxTemplateBytes {
			return set, fsops.ErrTooLarge(maxTemplateBytes, total)
		}
		content, err := s.callers.Store.Stage(ctx, bytes.NewReader(f.GetContent()), 0)
		if err != nil {
			return set, err
		}
		mode := f.GetMode() & 0o777
		if mode == 0 {
			mode = 0o644
		}
		set = append(set, files.File{Path: p, Content: content, Mode: mode})
	}
	return set, nil
}

// DeleteAgentTemplate implements the service.
func (s *Server) DeleteAgentTemplate(ctx context.Context, req *workspacev1.DeleteAgentTemplateRequest) (*workspacev1.DeleteAgentTemplateResponse, error) {
	c, t, err := s.agent(ctx, req.GetAgent())
	if err != nil {
		return nil, err
	}
	if t.Kind == templates.KindDirectory {
		return nil, errDirectory(t)
	}
	call, err := c.Call("DeleteAgentTemplate", req)
	if err != nil {
		return nil, err
	}
	view := files.NewView(s.callers.Store, files.TemplateSpace(c.tenant, req.GetAgent()), nil, files.Limits{}, s.callers.Now)
	done, err := view.Replace(ctx, call, nil, func(existing []files.Entry) error {
		if len(existing) == 0 {
			return errNoAgent(req.GetAgent())
		}
		return nil
	}, func([]files.Entry) string { return "" })
	if err != nil {
		return nil, err
	}
	return &workspacev1.DeleteAgentTemplateResponse{Files: done.Removed}, nil
}
