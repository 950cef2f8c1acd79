package procs

import (
	"cmp"
	"path/filepath"
)

// args are the flags of a service: its address, its data, the others' addresses, and the orchestrator's public keys.
func (c *Cluster) args(service string) []string {
	dir := c.Dir(service)
	keys := filepath.Join(c.cfg.Dir, "keys", "capability-keys.json")
	args := []string{"--address=" + c.addresses[service], "--auth-capability-keys=" + keys}
	switch service {
	case Orchestrator:
		args = append(args, "--replica=orchestrator", "--workspace-address="+c.addresses[Workspace], "--memory-address="+c.addresses[Memory],
			"--sandbox-address="+c.addresses[Sandbox], "--tasks-address="+c.addresses[Task],
			"--capability-key="+filepath.Join(dir, "capability.pem"), "--capability-key-set="+keys, "--model="+c.cfg.Model)
	case Workspace:
		args = append(args, "--data="+filepath.Join(dir, "runtime"), "--workspace="+cmp.Or(c.cfg.Workspace, filepath.Join(dir, "default")), "--workspaces="+c.cfg.Workspaces)
	case Memory:
		args = append(args, "--filesystem="+c.addresses[Workspace], "--index-dir="+filepath.Join(dir, "index"))
	case Sandbox:
		args = append(args, "--dir="+filepath.Join(dir, "state"), "--workspace-address="+c.addresses[Workspace])
	case Task:
		args = append(args, "--database="+filepath.Join(dir, "tasks.db"), "--threads="+c.addresses[Workspace])
	case Gateway:
		args = append(args, "--http-address="+c.cfg.HTTPAddress, "--orchestrator-address="+c.addresses[Orchestrator], "--workspace-address="+c.addresses[Workspace],
			"--memory-address="+c.addresses[Memory], "--sandbox-address="+c.addresses[Sandbox], "--tasks-address="+c.addresses[Task])
	}
	return args
}
