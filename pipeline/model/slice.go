package model

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
)

// Slice returns m with slice p of P of its encoder, see [gnn.Slice]. It keeps m's ID, and
// shares everything but the encoder.
func (m *Model) Slice(p, P int) (*Model, error) {
	enc, err := gnn.Slice(m.Encoder, p, P)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", m.ID, err)
	}
	slice := *m
	slice.Encoder = enc
	return &slice, nil
}
