package model

import (
	"fmt"

	"github.com/gvbll/gvbll/gnn"
	"github.com/gvbll/gvbll/gnn/safetensors"
)

// OpenEncoder reads an encoder that was trained elsewhere, such as in PyTorch Geometric:
// a safetensors file of a state dict with SAGEConv, GCNConv, GATConv or GINConv layers
// named convs.0, convs.1, … or conv1, conv2, …. The file does not contain the activation
// between layers; an empty one means relu, and elu for gat.
func OpenEncoder(path string, kind gnn.Kind, activation gnn.Activation) (gnn.Encoder, error) {
	f, err := safetensors.ReadFile(path)
	if err != nil {
		return nil, refused("weights", path, err, "save a state dict with safetensors.torch.save_file(model.state_dict(), FILE)")
	}
	if activation == "" && kind == gnn.KindGAT {
		activation = gnn.ELU
	}
	enc, err := gnn.Load(kind, activation, f.Tensors)
	if err != nil {
		return nil, fmt.Errorf("weights %s: %w", path, err)
	}
	return enc, nil
}
