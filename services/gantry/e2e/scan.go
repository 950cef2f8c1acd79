package e2e

import (
	"errors"
	"io"
	"strings"
	"testing"

	fsv1 "github.com/gantry-agents/gantry/gen/gantry/filesystem/v1"
	memoryv1 "github.com/gantry-agents/gantry/gen/gantry/memory/v1"
	orchestratorv1 "github.com/gantry-agents/gantry/gen/gantry/orchestrator/v1"
	sandboxv1 "github.com/gantry-agents/gantry/gen/gantry/sandbox/v1"
	taskv1 "github.com/gantry-agents/gantry/gen/gantry/task/v1"
	"github.com/gantry-agents/gantry/libs/identity"
)

// scan collects everything that a person can reach, by place.
func scan(t *testing.T, p *person, c clients) map[string]string {
	t.Helper()
	found := map[string]string{}
	for place, look := range map[string]func(*person, clients) (string, error){
		"files": scanFiles, "sandbox": scanSandbox, "memory": scanMemory, "memory search": searchMemory, "threads": scanThreads, "tasks": scanTasks,
		"sandboxes": scanSandboxes, "interactions": scanInteractions,
	} {
		text, err := look(p, c)
		if err != nil {
			t.Errorf("scan of %s as %s of %s: %v", place, p.user, p.tenant, err)
		}
		found[place] = text
	}
	return found
}

// pages collects the pages of a listing.
func pages(page func(token string) (text, next string, err error)) (string, error) {
	var out strings.Builder
	for token := ""; ; {
		text, next, err := page(token)
		if err != nil {
			return out.String(), err
		}
		out.WriteString(text)
		if token = next; token == "" {
			return out.String(), nil
		}
	}
}

// scanFiles reads every file of the bucket and of the layers below it.
func scanFiles(p *person, c clients) (string, error) {
	return pages(func(token string) (string, string, error) {
		got, err := c.files.List(p.ctx, &fsv1.ListRequest{Recursive: true, PageToken: token})
		if err != nil {
			return "", "", err
		}
		var out strings.Builder
		for _, e := range got.GetEntries() {
			out.WriteString(e.String() + "\n")
			if e.GetKind() != fsv1.FileKind_FILE_KIND_FILE {
				continue
			}
			text, err := read(p.ctx, c, e.GetPath())
			if err != nil {
				return "", "", err
			}
			out.WriteString(text + "\n")
		}
		return out.String(), got.GetNextPageToken(), nil
	})
}

// scanSandbox looks inside the person's sandbox, beyond the files that the service shows: at every file, process and variable.
func scanSandbox(p *person, c clients) (string, error) {
	got, err := c.sandbox.RunCommand(p.ctx, &sandboxv1.RunCommandRequest{CaptureBytes: 4 << 20, Command: &sandboxv1.Command{Script: []byte(strings.Join([]string{
		"cd /; ls -aR --ignore=proc --ignore=sys --ignore=usr --ignore=lib64 / 2>/dev/null",
		`grep -rs canary- --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr /`,
		"cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/mounts 2>/dev/null",
		"true",
	}, "\n"))}})
	if err != nil {
		return "", err
	}
	return got.GetStdout().GetText() + got.GetStderr().GetText(), nil
}

func scanMemory(p *person, c clients) (string, error) {
	stream, err := c.memory.Export(p.ctx, &memoryv1.ExportRequest{IncludeVersions: true})
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for {
		msg, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return out.String(), errors.New("the export has no end")
		}
		if err != nil {
			return out.String(), err
		}
		if msg.GetEnd() != nil {
			return out.String(), nil
		}
		out.WriteString(msg.GetLines())
	}
}

func searchMemory(p *person, c clients) (string, error) {
	var out strings.Builder
	for _, query := range []string{"canary", "release code", "secret"} {
		got, err := c.memory.Search(p.ctx, &memoryv1.SearchRequest{Query: query})
		if err != nil {
			return "", err
		}
		inThreads, err := c.memory.SearchThreads(p.ctx, &memoryv1.SearchThreadsRequest{Query: query})
		if err != nil {
			return "", err
		}
		out.WriteString(got.String() + inThreads.String())
	}
	return out.String(), nil
}

// scanThreads exports every thread that is listed.
func scanThreads(p *person, c clients) (string, error) {
	return pages(func(token string) (string, string, error) {
		got, err := c.admin.ListThreads(p.ctx, &orchestratorv1.ListThreadsRequest{PageToken: token})
		if err != nil {
			return "", "", err
		}
		var out strings.Builder
		for _, head := range got.GetThreads() {
			out.WriteString(head.String())
			id, _ := identity.FromContext(p.ctx)
			id.Session = head.GetThread().GetSession()
			stream, err := c.admin.ExportThread(identity.NewContext(p.ctx, id), &orchestratorv1.ExportThreadRequest{IncludeToolResults: true})
			if err != nil {
				return "", "", err
			}
			for {
				msg, err := stream.Recv()
				if err != nil {
					return "", "", err
				}
				if msg.GetEnd() != nil {
					break
				}
				out.WriteString(msg.GetLines())
			}
		}
		return out.String(), got.GetNextPageToken(), nil
	})
}

func scanTasks(p *person, c clients) (string, error) {
	return pages(func(token string) (string, string, error) {
		got, err := c.tasks.ListTasks(p.ctx, &taskv1.ListTasksRequest{PageToken: token})
		if err != nil {
			return "", "", err
		}
		var out strings.Builder
		for _, t := range got.GetTasks() {
			whole, err := c.tasks.GetTask(p.ctx, &taskv1.GetTaskRequest{TaskId: t.GetId()})
			if err != nil {
				return "", "", err
			}
			out.WriteString(t.String() + whole.String())
		}
		return out.String(), got.GetNextPageToken(), nil
	})
}

func scanSandboxes(p *person, c clients) (string, error) {
	return pages(func(token string) (string, string, error) {
		got, err := c.sandbox.List(p.ctx, &sandboxv1.ListRequest{PageToken: token})
		return got.String(), got.GetNextPageToken(), err
	})
}

func scanInteractions(p *person, c clients) (string, error) {
	got, err := c.runs.ListInteractions(p.ctx, &orchestratorv1.ListInteractionsRequest{AllThreads: true})
	return got.String(), err
}
