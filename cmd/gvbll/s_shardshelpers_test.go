package main

import "testing"

// mustShards ends the test if there is an error.
func mustShards(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
