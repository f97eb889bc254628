// Package snapshots writes the state of engines, shards and trainers as one safetensors file while they
// go on, and reads it back. What each declares is its own, see [snapshot.Schema].
package snapshots
