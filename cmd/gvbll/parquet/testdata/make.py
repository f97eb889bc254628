"""Writes one graph as tables in csv and, by several programs, in Parquet (pandas 3.1,
pyarrow 26.0, polars 2.1, duckdb 2.0)."""
import os

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

nodes = pd.DataFrame({
    "id": ["home", "ада", "x, y", "42"],
    "label": ["page", "person", None, "page"],
    "time": pd.to_datetime(["2019-03-31 08:15:00.5", "2018-01-01", "2020-02-29", "2017-12-31"], format="ISO8601"),
    "split": ["train", "valid", None, "test"],
    "size": [0.1, -2.5e-7, 1e30, 3.0],
    "hits": [7, 0, -1, 2**40],
    "new": [True, False, True, False],
    "few": pd.array([1, 2, 3, 4], "uint8"),
})
edges = pd.DataFrame({"source": ["home", "42", "x, y"], "target": ["ада", "home", "42"], "why": [["a"], [], ["b", "c"]]})
vectors = [[0.5, 1.0, -2.0], [1.0, 2.0, 3.0], [0.0, 0.25, 1e-10], [4.0, 5.0, 6.0]]


def folder(name):
    os.makedirs(name, exist_ok=True)
    return name + "/"


def text(frame):
    frame = frame.copy()
    frame["time"] = frame["time"].astype("datetime64[ms]").astype("int64")
    return frame


text(nodes).to_csv(folder("csv") + "nodes.csv", index=False)
edges.drop(columns="why").to_csv("csv/edges.csv", index=False)
text(nodes[["id", "label", "time"]]).assign(features=vectors).to_csv(folder("lists-csv") + "nodes.csv", index=False)
edges.drop(columns="why").to_csv("lists-csv/edges.csv", index=False)

# With an index that pandas saves as a column, and a dictionary.
nodes.set_index(pd.Index([5, 6, 7, 9])).astype({"label": "category"}).to_parquet(folder("pandas") + "nodes.parquet")
edges.to_parquet("pandas/edges.parquet")

table = pa.Table.from_pandas(nodes, preserve_index=False)
pq.write_table(table, folder("arrow") + "nodes.parquet", version="2.6", data_page_version="2.0", use_dictionary=False, compression="zstd", row_group_size=3,
               column_encoding={"id": "DELTA_LENGTH_BYTE_ARRAY", "hits": "DELTA_BINARY_PACKED", "size": "BYTE_STREAM_SPLIT"})
pq.write_table(pa.Table.from_pandas(edges, preserve_index=False), "arrow/edges.parquet", compression="gzip")

pl.from_pandas(nodes).write_parquet(folder("polars") + "nodes.parquet")
pl.from_pandas(edges).write_parquet("polars/edges.parquet")

folder("duckdb")
duckdb.sql("copy (select * from nodes) to 'duckdb/nodes.parquet' (format parquet, parquet_version v2)")
duckdb.sql("copy (select * from edges) to 'duckdb/edges.parquet' (format parquet)")

lists = pa.table({"id": nodes["id"], "label": nodes["label"], "time": pa.array(nodes["time"], pa.timestamp("ms")), "features": pa.array(vectors, pa.list_(pa.float64()))})
pq.write_table(lists, folder("lists") + "nodes.parquet")
pq.write_table(pa.Table.from_pandas(edges, preserve_index=False), "lists/edges.parquet")
fixed = lists.set_column(3, "features", pa.array(vectors, pa.list_(pa.float32(), 3)))
pq.write_table(fixed, folder("fixed") + "nodes.parquet")
pq.write_table(pa.Table.from_pandas(edges, preserve_index=False), "fixed/edges.parquet")
