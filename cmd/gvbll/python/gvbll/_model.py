"""Model files, and their training."""

from __future__ import annotations

import json
import os
import shutil
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ._program import Progress, run
from ._tables import Table, write


class Model:
    """A model file, as `gvbll work --model` reads it."""

    def __init__(self, file: str | os.PathLike[str]) -> None:
        self.file = Path(file)
        self._folder: tempfile.TemporaryDirectory[str] | None = None  # is removed with this object
        self._seen: dict[str, Any] = json.loads(run(["inspect", os.fspath(file)], {"json": True}))

    def inspect(self) -> dict[str, Any]:
        """Returns what `gvbll inspect --json` prints: encoder, schema, training, heads."""
        return self._seen

    @property
    def id(self) -> str:
        """The hash that names the model in predictions and in the ledger."""
        return str(self._seen["id"])

    @property
    def classes(self) -> list[str]:
        """Names of the classes, in the order of probabilities."""
        return list(self._seen["classes"])

    def save(self, file: str | os.PathLike[str]) -> Model:
        """Copies the file, and returns the copy."""
        shutil.copyfile(self.file, file)
        return Model(file)

    def __repr__(self) -> str:
        return f"Model({self.id}, {self._seen['encoder']}, {len(self.classes)} classes, {self.file})"

    @classmethod
    def from_torch(
        cls, state_dict: Mapping[str, Any], nodes: Table, edges: Table | None = None, labels: Table | None = None,
        **options: Any
    ) -> Model:
        """Returns a model with an encoder trained in PyTorch Geometric, whose head is trained here on the nodes' labels.

        The state dict is that of GraphSAGE, GCN, GAT or GIN, of torch tensors or arrays. It does not say how it was trained:
        give encoder="gcn", activation="elu", normalize="none" where these are not the defaults of `gvbll train`
        (docs/pytorch-geometric.md). Options are those of train()."""
        with tempfile.TemporaryDirectory(prefix="gvbll-") as folder:
            file = Path(folder) / "encoder.safetensors"
            file.write_bytes(safetensors(state_dict))
            return train(nodes, edges, labels, weights=file, **options)


def safetensors(tensors: Mapping[str, Any]) -> bytes:
    """Returns tensors as a safetensors file, numbers with a fraction as float32."""
    header, data = {}, b""
    for name in sorted(tensors):
        x = tensors[name]
        x = np.asarray(x.detach().cpu().numpy() if hasattr(x, "detach") else x)
        kind = "F32" if x.dtype.kind == "f" else "I64"
        raw = np.ascontiguousarray(x, "<f4" if kind == "F32" else "<i8").tobytes()
        header[name] = {"dtype": kind, "shape": list(x.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def train(
    nodes: Table, edges: Table | None = None, labels: Table | None = None, *, dataset: Mapping[str, Any] | None = None,
    name: str = "table", out: str | os.PathLike[str] | None = None, progress: Progress = True, **flags: Any
) -> Model:
    """Trains a model by `gvbll train`.

    nodes: a row for each, with columns id (else the index is the ids), label (empty where it has not come), optionally
        time, and one for each attribute. Or the path of a csv or Parquet file, or of a whole data set.
    edges: columns source and target, ids of nodes; optionally kind, weight, directed.
    labels: columns node, class and time, in place of the column label.
    dataset: what dataset.json says: kinds of columns, classes, keys that make edges (docs/transactions.md).
    name: the data set's name, which is in the model file.
    out: the file to write; it must not exist, unless force=True. Without it the file lasts as long as the model: save() it.
    flags: flags of the command, such as train_until="2026-03-01", label_delay="30d", epochs=50, encoder="gat"."""
    with tempfile.TemporaryDirectory(prefix="gvbll-") as folder:
        data = write(Path(folder), nodes, edges, labels, dataset, name)
        kept = tempfile.TemporaryDirectory(prefix="gvbll-model-") if out is None else None
        file = Path(kept.name) / "model.safetensors" if kept else Path(out or "")
        run(["train"], {"data": data, "out": file, **flags}, progress)
    model = Model(file)
    model._folder = kept
    return model
