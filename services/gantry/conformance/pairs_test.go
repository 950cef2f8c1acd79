package main

import "testing"

// TestEveryPairExists holds the table to the tree: each pair's folder has tests, and each folder that runs a suite is in a pair.
func TestEveryPairExists(t *testing.T) {
	root, err := repository()
	if err != nil {
		t.Fatal(err)
	}
	missing, err := unlisted(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range missing {
		t.Errorf("%s runs a suite and is in no pair", m)
	}
}
