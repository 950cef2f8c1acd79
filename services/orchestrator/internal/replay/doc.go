// Package replay makes the requests and decisions of past runs again, from their journal alone, and compares them with what the journal says: a prompt builder, a policy or a tool that has changed shows
// as a difference. It also compares two runs with each other. Nothing is changed and no model is asked.
//
// The journal holds a request by its hash and its manifest, not by its text: a difference is shown between the manifests, part by part. Files of the workspace are taken in the revision that the
// manifest names; one that is not kept any more is told as such.
package replay
