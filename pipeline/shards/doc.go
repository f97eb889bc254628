// Package shards has one graph on several workers: each [Shard] steps the whole structure with some
// columns of the encoder and serves its own nodes, and a [Trainer] learns for all of them. What
// they need of each other is values that are sent as bytes (messages.go). An engine knows nothing
// of them.
//
// docs/adr/0020-column-shards.md has the reasons.
package shards
