// Package store has the containers of what an engine keeps for each node, or until something
// comes: [Queue], in order of insertion and bounded by its user; [SlotTable], rows of numbers
// beside it; [Chunked], a list that grows without moving. Snapshots read them while they
// change: before an entry changes that an open snapshot has not read, it is copied.
package store
