"""Data frames as the files that the program reads (docs/datasets.md), and as events (docs/wire-format.md)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Union

import numpy as np
import pandas as pd

Table = Union[pd.DataFrame, Any, str, "os.PathLike[str]"]
"""A data frame of pandas, one of pyarrow or polars (anything with to_pandas), or the path of a file in csv or Parquet."""

NAMES = {"id", "label", "source", "target", "node", "class", "kind", "split"}
"""Columns whose values are names: 3.0 in one of them is 3, as pandas makes floats of integers with gaps."""


def frame(table: Any) -> pd.DataFrame:
    """Returns a table as a data frame of pandas."""
    if (file := path_of(table)) is not None:
        return pd.read_parquet(file) if file.endswith(".parquet") else pd.read_csv(file)
    out = table if isinstance(table, pd.DataFrame) else table.to_pandas()
    assert isinstance(out, pd.DataFrame)
    return out


def path_of(table: Any) -> str | None:
    """Returns a table's path, None for one that is given itself."""
    return os.fspath(table) if isinstance(table, (str, os.PathLike)) else None


def _numbers(value: Any) -> Any:
    """Returns a list or an array as numbers with blanks between, which a cell can hold, and any other value as it is."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return " ".join(repr(x) for x in np.asarray(value).ravel().tolist())
    return value


def _cells(name: str, column: pd.Series) -> pd.Series:
    """Returns a column as to_csv is to write it: times as ISO 8601 in UTC, lists as numbers with blanks between."""
    if isinstance(column.dtype, pd.DatetimeTZDtype):
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if pd.api.types.is_datetime64_dtype(column.dtype):
        return column.dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    if name in NAMES and pd.api.types.is_float_dtype(column.dtype) and (column.dropna() % 1 == 0).all():
        return column.astype("Int64")
    return column.map(_numbers) if column.dtype == object else column


def with_ids(nodes: pd.DataFrame) -> pd.DataFrame:
    """Returns nodes with a column id: the index, where they have none."""
    return nodes if "id" in nodes.columns else nodes.rename_axis("id").reset_index()


def _write(table: Any, folder: Path, name: str) -> None:
    if (file := path_of(table)) is not None:
        endings = [e for e in (".csv", ".csv.gz", ".parquet") if file.endswith(e)]
        if not endings or not os.path.exists(file):
            raise ValueError(f"{file}: there is no such file in csv, csv.gz or Parquet")
        (folder / (name + endings[0])).symlink_to(os.path.abspath(file))
        return
    rows = frame(table)
    rows = with_ids(rows) if name == "nodes" else rows
    cells = {str(c): _cells(str(c), rows[c]) for c in rows.columns}
    pd.DataFrame(cells).to_csv(folder / f"{name}.csv", index=False)


def write(
    folder: Path, nodes: Table, edges: Table | None, labels: Table | None, dataset: Mapping[str, Any] | None, name: str
) -> str:
    """Writes a data set below a folder, and returns its path. Nodes may be the path of one, which is then it."""
    whole = path_of(nodes)
    if whole is not None and (os.path.isdir(whole) or whole.endswith(".npz")):
        if edges is not None or labels is not None or dataset is not None:
            raise ValueError(f"{whole} has its own edges, labels and dataset.json: give it alone")
        return whole
    to = folder / name
    to.mkdir()
    _write(nodes, to, "nodes")
    if edges is not None:
        _write(edges, to, "edges")
    elif "keys" not in (dataset or {}):
        (to / "edges.csv").write_text("source,target\n")
    if labels is not None:
        _write(labels, to, "labels")
    if dataset is not None:
        (to / "dataset.json").write_text(json.dumps(dict(dataset)))
    return str(to)


def _plain(name: str, value: Any) -> Any:
    """Returns a value as JSON has it, and None for a gap."""
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(name, x) for x in value]
    if isinstance(value, Mapping):
        return {str(k): _plain(str(k), x) for k, x in value.items()}
    if pd.isna(value):
        return None
    if isinstance(value, pd.Timestamp):
        return value.isoformat() if value.tzinfo else value.isoformat() + "Z"
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value % 1 == 0 and name in NAMES | {"time"}:
        return int(value)
    return value if isinstance(value, (bool, int, float)) else str(value)


def _rows(table: Table) -> Iterator[dict[str, Any]]:
    """Yields rows without their gaps, each value of its own type."""
    all = frame(table)
    columns = [(str(c), all[c].astype(object)) for c in all.columns]
    for i in range(len(all)):
        yield {name: v for name, column in columns if (v := _plain(name, column.iat[i])) is not None}


OF_EVENTS = ["id", "time", "context", "departed", "predict", "neighbours", "features", "indices", "values"]
OF_TABLES = ["label", "label_time", "split", "year"]


def events(
    nodes: Table | None, edges: Table | None, labels: Table | None, vector: bool = False
) -> Iterator[dict[str, Any]]:
    """Yields events: nodes, whose columns are features by name, or with vector a list of them, but for those that an event
    has itself; then edges; then labels, of the column label of nodes, too."""
    told: list[dict[str, Any]] = []
    if nodes is not None:
        table = with_ids(frame(nodes))
        names = [str(c) for c in table.columns if c not in OF_EVENTS + OF_TABLES]
        for row in _rows(table):
            out = {k: row[k] for k in OF_EVENTS if k in row}
            if names and not {"features", "indices"} & out.keys():
                out["features"] = [row.get(k) for k in names] if vector else {k: row[k] for k in names if k in row}
            yield out
            if "label" in row:
                told.append({"node": row["id"], "class": row["label"]})
    for more in (edges, labels):
        if more is not None:
            yield from _rows(more)
    yield from told
