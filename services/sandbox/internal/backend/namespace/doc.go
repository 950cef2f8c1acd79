// Package namespace is the driver that isolates with what the Linux kernel offers: user, mount, pid, network, ipc, uts and control group namespaces, a
// root file system in memory with the system's /usr read-only, a workspace in memory with limits on bytes and entries, control group limits, a
// seccomp filter, no capabilities and no network.
//
// Three processes take part. The service makes a supervisor (package supervisor); the supervisor clones an init process into new namespaces; init builds the
// root, locks itself down and then forks commands when the supervisor says so. Init is this very binary under another name. It is the first process of its
// pid namespace, so when it ends, or when the supervisor does and its control socket closes, the kernel kills everything inside.
//
// Who may do what: init is user 0 of its user namespace, with the capabilities KILL, SETUID and SETGID once it is locked down. Commands are user 1000 without
// capabilities, in a session and a control group of their own: they cannot signal, trace or see init. Projected files belong to user 0 in a
// sticky directory, which is what makes them read-only for commands.
package namespace
