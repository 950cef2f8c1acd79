// Package sandbox is Gantry's sandbox service: isolated processes and their files, one live sandbox for each bucket.
//
// It serves gantry.sandbox.v1.SandboxService, and gantry.filesystem.v1.FilesystemService for the files inside. Commands run under a supervisor process for
// each sandbox that outlives the service; a service that starts again adopts the supervisors it finds.
//
// A binary that runs this service starts itself again as supervisor and as the first process of a sandbox. Its main function must therefore call [MaybeInit]
// before it does anything else.
package sandbox
