// Package containertest runs the suite of stores on a PostgreSQL in a container, as operators run it: with a password, over the network of an engine. It needs a Docker Engine,
// which package testkit starts where it can.
package containertest
