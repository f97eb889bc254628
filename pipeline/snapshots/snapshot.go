package snapshots

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/gnn/snapshot"
)

// Snapshot reads the state of parts, as it was when the snapshot began, as the bytes of a
// safetensors file. The documentation of pipeline.Snapshot lists the tensors.
//
// The file is produced as it is read, a part at a time, while the parts go on: before one changes a
// record that has not been read, it copies the record into the snapshot. The caller reads between
// windows and must Close the snapshot; until then there can be no other of the same parts.
type Snapshot struct {
	of     []saved // none when closed
	blocks []int64
	states []*snapshot.Schema
	stream *safetensors.Stream
}

// saved is what has a part of a snapshot: an engine, or what has a part of one.
type saved interface {
	part
	// Strings identify it and its progress.
	Strings() []String
	// Rest waits for what runs beside it. It panics within a window.
	Rest()
	// Open is the snapshot that is open, or nil.
	Open() **Snapshot
	// AppendBlocks appends the numbers of its blocks.
	AppendBlocks(list []int64) []int64
}

// Part is a saved part with the prefix of the names of its tensors and, after [Own], of
// the keys of its strings.
type Part struct {
	prefix string
	saved
}

// Under returns a part of a snapshot whose names begin with a prefix.
func Under(prefix string, x saved) Part { return Part{prefix, x} }

// part is a piece of the engine's state. Its one declaration serves to write the piece,
// to read it back, and to check it.
type part interface{ State(s *snapshot.Schema) }

// Take begins the snapshot of parts.
func Take(meta map[string]string, parts ...Part) *Snapshot {
	for _, x := range parts {
		if *x.Open() != nil {
			panic("snapshots: the previous snapshot is not closed")
		}
		x.Rest()
	}
	for key := range meta {
		if strings.HasPrefix(key, Own) {
			panic(fmt.Sprintf("snapshots: %q is a key of the engine's own", key))
		}
	}
	meta = maps.Clone(meta)
	if meta == nil {
		meta = map[string]string{}
	}
	s := &Snapshot{}
	var tensors []safetensors.Part
	for _, x := range parts {
		for _, str := range x.Strings() {
			meta[Own+x.prefix+str.key] = str.text
		}
		*x.Open() = s
		s.of = append(s.of, x.saved)
		s.blocks = x.AppendBlocks(s.blocks)
		state := snapshot.Saving()
		x.State(state)
		s.states = append(s.states, state)
		for _, p := range state.Parts() {
			p.Name = x.prefix + p.Name
			tensors = append(tensors, p)
		}
	}
	var err error
	if s.stream, err = safetensors.NewStream(meta, tensors); err != nil {
		panic(fmt.Sprintf("snapshots: snapshot: %v", err))
	}
	return s
}

var errClosed = errors.New("snapshot: it is closed")

// Read implements [io.Reader]. It fills p, except at the end.
func (s *Snapshot) Read(p []byte) (int, error) {
	if s.of == nil {
		return 0, errClosed
	}
	return s.stream.Read(p)
}

// Len returns the length of the whole file in bytes, however much has been read.
func (s *Snapshot) Len() int64 { return s.stream.Len() }

// Blocks returns the numbers of the blocks of Config.Blocks that the state refers to. A
// later step may free them, so the caller keeps them now; the snapshot is of no use without
// them.
func (s *Snapshot) Blocks() []int64 { return s.blocks }

// Close frees what the snapshot holds, whether or not it was read to the end, and allows
// the next one. It may be called twice.
func (s *Snapshot) Close() {
	for i, x := range s.of {
		s.states[i].Release()
		*x.Open() = nil
	}
	s.of = nil
}
