// Package templates finds the layers below a bucket: the shared template of its agent and, in the scopes session and user, the template's directory for the user.
//
// A template is a directory of the host that its engineers keep, or files that were stored through the API. A directory shows only the names of the layout and what its agent.yaml
// includes: never another user's directory, and nothing else that happens to lie there.
package templates
