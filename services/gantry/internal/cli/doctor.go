package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"

	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	"github.com/gantry-agents/gantry/services/gantry/internal/suite"
)

// Doctor says what this machine can do.
type Doctor struct {
	Data       string `help:"Data directory to look at." default:".gantry" type:"path"`
	Workspaces string `help:"Directory of agents to look at." type:"path"`
	JSON       bool   `help:"Print one JSON object a finding."`
}

// Finding is one thing that works or does not.
type Finding struct {
	Area   string `json:"area"`
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail,omitempty"`
	Fix    string `json:"fix,omitempty"`
}

// Run looks at everything on a suite of its own, apart from the data directory. Exit code 1 when something that Gantry needs is missing.
func (c *Doctor) Run(ctx context.Context, env *Env) error {
	dir, err := os.MkdirTemp("", "gantry-doctor-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	findings := append(c.data(), address("grpc", "127.0.0.1:7401"), address("rest", "127.0.0.1:7400"))
	cfg := suite.DefaultConfig()
	cfg.Data, cfg.Workspaces = dir, c.Workspaces
	s, err := suite.Start(ctx, cfg, suite.Options{Logger: env.Quiet(), Private: true})
	if err != nil {
		return err
	}
	clients := NewClients(s.Conn(suite.Orchestrator), s.Conn(suite.Workspace), s.Conn(suite.Memory), s.Conn(suite.Sandbox), s.Conn(suite.Task))
	for _, look := range []func(context.Context, *Clients) ([]Finding, error){models, drivers, agents} {
		found, err := look((&Target{Who: Who{Agent: "default"}}).must(ctx), clients)
		if err != nil {
			return errors.Join(err, s.Stop(context.WithoutCancel(ctx)))
		}
		findings = append(findings, found...)
	}
	if err := s.Stop(context.WithoutCancel(ctx)); err != nil {
		return err
	}
	return c.print(env, findings)
}

// must is context for an identity that is known to be right.
func (t *Target) must(ctx context.Context) context.Context {
	if with, err := t.context(ctx); err == nil {
		return with
	}
	return ctx
}

func (c *Doctor) print(env *Env, findings []Finding) error {
	bad := false
	for _, f := range findings {
		bad = bad || !f.OK && f.Fix != ""
		if c.JSON {
			if err := env.Value(f); err != nil {
				return err
			}
			continue
		}
		mark := "ok"
		if !f.OK {
			mark = "no"
		}
		env.Line("%-2s  %-8s %-28s %s", mark, f.Area, f.Name, f.Detail)
		if !f.OK && f.Fix != "" {
			env.Line("             -> %s", f.Fix)
		}
	}
	if bad {
		return exitCode(ExitFailed)
	}
	return nil
}

// data looks at the data directory, or at the first directory above it that exists.
func (c *Doctor) data() []Finding {
	f := Finding{Area: "data", Name: c.Data}
	at := c.Data
	for {
		info, err := os.Stat(at)
		if err == nil && !info.IsDir() {
			f.Detail, f.Fix = at+" is a file", "choose another directory with --data"
			return []Finding{f}
		}
		if err == nil {
			break
		}
		parent := at[:max(strings.LastIndexByte(at, '/'), 1)]
		if parent == at {
			break
		}
		at = parent
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(at, &fs); err == nil {
		f.Detail = fmt.Sprintf("%d MiB free", fs.Bavail*uint64(fs.Bsize)>>20)
	}
	if err := syscall.Access(at, 2); err != nil {
		f.Detail, f.Fix = at+" can't be written", "choose another directory with --data"
		return []Finding{f}
	}
	f.OK = true
	return []Finding{f}
}

// address says whether the usual address is free, which it is not while Gantry runs.
func address(name, at string) Finding {
	f := Finding{Area: "address", Name: name + " " + at}
	l, err := net.Listen("tcp", at)
	if err != nil {
		f.Detail = "in use, by Gantry or another program; --address and --http-address choose others"
		return f
	}
	f.OK, f.Detail = true, "free"
	if err := l.Close(); err != nil {
		f.Detail = err.Error()
	}
	return f
}

func models(ctx context.Context, clients *Clients) ([]Finding, error) {
	got, err := clients.Agents.ListModels(ctx, &orchestratorv1.ListModelsRequest{})
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, m := range got.GetModels() {
		f := Finding{Area: "model", Name: m.GetName(), OK: m.GetTools() || m.GetIsDefault(), Detail: m.GetNote()}
		if m.GetIsDefault() {
			f.Detail = strings.TrimSpace("default " + f.Detail)
		}
		out = append(out, f)
	}
	return out, nil
}

func drivers(ctx context.Context, clients *Clients) ([]Finding, error) {
	got, err := clients.Sandbox.Probe(ctx, &sandboxv1.ProbeRequest{})
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, d := range got.GetDrivers() {
		f := Finding{Area: "sandbox", Name: d.GetDriver(), OK: d.GetAvailable()}
		if d.GetDriver() == got.GetDefaultDriver() {
			f.Detail = "default"
		}
		out = append(out, f)
		for _, feature := range d.GetFeatures() {
			f := Finding{Area: "sandbox", Name: d.GetDriver() + ": " + feature.GetName(), OK: feature.GetAvailable(), Detail: feature.GetDetail()}
			// One driver that works is enough: what another one lacks is no fault of the machine.
			if feature.GetRequired() && got.GetDefaultDriver() == "" {
				f.Fix = feature.GetFix()
			} else if !f.OK && feature.GetFix() != "" {
				f.Detail += " (" + feature.GetFix() + ")"
			}
			out = append(out, f)
		}
	}
	if got.GetDefaultDriver() == "" {
		out = append(out, Finding{Area: "sandbox", Name: "any", Detail: "no driver works here: agents have files and no commands"})
	}
	return out, nil
}

// agents looks at the files of every agent, and at what its lists remove.
func agents(ctx context.Context, clients *Clients) ([]Finding, error) {
	list, err := clients.Agents.ListAgents(ctx, &orchestratorv1.ListAgentsRequest{PageSize: 500})
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, a := range list.GetAgents() {
		who := (&Target{Who: Who{Agent: a.GetId()}}).must(ctx)
		got, err := clients.Agents.GetAgent(who, &orchestratorv1.GetAgentRequest{Id: a.GetId()})
		if err != nil {
			out = append(out, Finding{Area: "agent", Name: a.GetId(), Detail: Explain(err)})
			continue
		}
		out = append(out, Finding{Area: "agent", Name: a.GetId(), OK: true, Detail: oneLine(got.GetAgent().GetDescription(), maxShown)})
		for _, p := range got.GetAgent().GetProblems() {
			out = append(out, Finding{Area: "agent", Name: a.GetId() + "/" + p.GetPath(), Detail: p.GetProblem()})
		}
		if tools, err := clients.Agents.ListTools(who, &orchestratorv1.ListToolsRequest{Id: a.GetId()}); err == nil {
			for _, t := range tools.GetTools() {
				if !t.GetEnabled() {
					out = append(out, Finding{Area: "agent", Name: a.GetId() + ": " + t.GetName(), OK: true, Detail: "removed by " + t.GetRemovedBy()})
				}
			}
			for _, u := range tools.GetUnknownEntries() {
				out = append(out, Finding{Area: "agent", Name: a.GetId() + ": " + u, Detail: "a list names this tool and there is none"})
			}
		}
	}
	return out, nil
}
