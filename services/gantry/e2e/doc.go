// Package e2e is the suite of the whole: what a person who runs Gantry may rely on, seen through the clients of its services.
// Nothing in it knows where the services are, so the same tests run on the suite in one process and on six processes with
// separate data directories.
//
// The model is the offline one: instructions are followed by rules, so that a test can say what must happen.
package e2e
