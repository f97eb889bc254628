package main

import "testing"

// mustLook ends the test if there is an error.
func mustLook(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
