package sender

import (
	"fmt"
	"strings"

	"github.com/gvbll/gvbll/pipeline/event"
	"github.com/gvbll/gvbll/topics/kafka"
)

// CellBy says what decides the cell of a node, in a graph of several: an attribute, such as tenant, or what its id begins with. Nodes
// with the same have the same cell, as with a producer that has it as the key of its records. Nil is for graphs that are not
// divided, where a node's id decides its partition.
type CellBy struct {
	attribute string
	separator string             // of what ids begin with, if attribute is empty
	known     map[event.ID]int32 // partitions of nodes that were sent
}

// ParseCellBy reads the name of an attribute, or prefix=SEPARATOR: what comes before the first such text in an id.
func ParseCellBy(text string) (*CellBy, error) {
	b := &CellBy{attribute: text, known: make(map[event.ID]int32)}
	if separator, is := strings.CutPrefix(text, "prefix="); is {
		b.attribute, b.separator = "", separator
	}
	if b.attribute == "" && b.separator == "" {
		return nil, fmt.Errorf("%q: give the name of an attribute, or prefix=/ where ids begin with it and a slash", text)
	}
	return b, nil
}

// ofNode returns the partition of a node among so many, and remembers it for its labels.
func (b *CellBy) ofNode(n *event.Node, key []byte, partitions int) (int32, error) {
	if b == nil {
		return kafka.PartitionFor(key, partitions), nil
	}
	if b.separator != "" {
		return b.ofID(n.ID, partitions)
	}
	for i := range n.Named {
		if a := &n.Named[i]; a.Name == b.attribute && a.Kind != event.Gap {
			p := kafka.PartitionFor([]byte(a.String()), partitions)
			b.known[n.ID.Clone()] = p
			return p, nil
		}
	}
	if p, known := b.known[n.ID]; known { // an update, edges, a departure
		return p, nil
	}
	return 0, fmt.Errorf("node %.80s has no attribute %.80q, which decides its cell", n.ID, b.attribute)
}

// ofID returns the partition of a node, of which only the id is known.
func (b *CellBy) ofID(id event.ID, partitions int) (int32, error) {
	if b.separator != "" {
		prefix, _, found := strings.Cut(id.Str, b.separator)
		if !found {
			return 0, fmt.Errorf("id %.80s has no %q behind what decides its cell", id, b.separator)
		}
		return kafka.PartitionFor([]byte(prefix), partitions), nil
	}
	p, known := b.known[id]
	if !known {
		return 0, fmt.Errorf("the label of node %.80s comes before the node, whose attribute %.80q decides the cell", id, b.attribute)
	}
	return p, nil
}
