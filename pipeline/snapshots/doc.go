// Package snapshots writes the state of an engine, or of what has a part of one, as one safetensors file
// while it goes on, and reads it back. What is declared is its own, see [snapshot.Schema].
package snapshots
