// Package sandboxtest is the black-box suite for SandboxService and the FilesystemService beside it. It knows nothing but the generated clients, so any
// implementation passes or fails it: in memory, as a process, or somebody else's at an address.
package sandboxtest
