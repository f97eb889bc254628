package model

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/gvbll/gvbll/gnn/safetensors"
	"github.com/gvbll/gvbll/pipeline/event"
)

// idSet is a set of node ids, as sorted 64-bit hashes: 8 bytes an id, whatever its length.
// Another node is taken for one of a million by chance once in 10¹³ times. The hashes are
// signed since tensors have no unsigned integers of 64 bits.
type idSet []int64

func newIDSet(ids []event.ID) (s idSet) {
	for _, id := range ids {
		s = append(s, hashID(id))
	}
	slices.Sort(s)
	return slices.Compact(s)
}

func (s idSet) has(id event.ID) bool {
	if len(s) == 0 {
		return false
	}
	_, found := slices.BinarySearch(s, hashID(id))
	return found
}

// hashID returns the first 8 bytes of the SHA-256 of an id: of a string with an "s" before
// it, or of the eight bytes of an integer, low ones first, with an "i" before them.
func hashID(id event.ID) int64 {
	b := append(make([]byte, 0, 64), 's')
	if id.Str == "" {
		b = binary.LittleEndian.AppendUint64(append(b[:0], 'i'), uint64(id.Num))
	}
	sum := sha256.Sum256(append(b, id.Str...))
	return int64(binary.LittleEndian.Uint64(sum[:]))
}

// trainedTensor is the name of the tensor with the [idSet] of the training nodes.
const trainedTensor = "training.ids"

// loadTrained reads which nodes the model was trained on. A file without them knows of none.
func (m *Model) loadTrained(tensors map[string]safetensors.Tensor) error {
	t, ok := tensors[trainedTensor]
	if !ok {
		return nil
	}
	var err error
	if m.trained, err = safetensors.Values[int64](t); err != nil {
		return fmt.Errorf("%s: %w", trainedTensor, err)
	}
	if !slices.IsSorted(m.trained) {
		return fmt.Errorf("%s: the hashes are not sorted", trainedTensor)
	}
	return nil
}

// KnownNodes returns the number of training nodes whose ids the model knows.
func (m *Model) KnownNodes() int { return len(m.trained) }

// TrainedOn reports whether the node with the id was among the training nodes. Its label is
// in the model already: to score a prediction of it, or to learn the label again, would
// count the node twice.
func (m *Model) TrainedOn(id event.ID) bool { return m.trained.has(id) }
