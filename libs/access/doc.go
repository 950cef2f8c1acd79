// Package access decides who may call which RPC, and on whose behalf.
//
// What a method needs is in its proto, in the option gantry.common.v1.access: an audience and verbs. A method without
// the option is refused for everyone, so that nobody forgets it. What a caller may do is a [Grant], which comes from
// one of three sources:
//
//   - nobody: in mode none, which is served on loopback and in memory only, a call without credential is trusted with
//     everything in the default tenant;
//   - a client's JWT, whose claims ([ClientClaims]) fix the tenant and usually the user;
//   - a capability ([Capability]): a token that only the orchestrator mints ([Minter]), with identity, bucket, verbs
//     and path prefixes of one run. It is verified whenever it is present, in every mode and in process too.
//
// Handlers ask the grant of their context ([FromContext]) where the option cannot know the answer: [Grant.AllowsPath]
// for files, [Grant.Allows] for verbs that depend on the request.
package access
