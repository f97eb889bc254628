package main

import "testing"

// mustService ends the test if there is an error.
func mustService(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
