// Package testkit gives tests what is real: a PostgreSQL, an Ollama, a Docker Engine, ports, connections. It is imported by
// tests and suites only.
//
// What is missing on a machine makes a test skip. Where it must not be missing, GANTRY_TEST_REQUIRE names it ("postgres",
// "ollama", "docker", "namespace", separated by commas; "all" is everything), and the skip becomes a failure.
//
// What the kit starts ends with the test binary, however that ends: each server is watched by a shell that waits for the
// end of a pipe from the test binary, then stops the server and removes its files.
//
// Suites take a [T] rather than a *testing.T, so that [Failures] can run them against an implementation that is broken on
// purpose and a test can say that the suite notices.
package testkit
