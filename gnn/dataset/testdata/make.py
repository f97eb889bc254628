"""Writes one graph of four nodes as numpy and scipy save it (numpy 2.4, scipy 1.17)."""
import numpy as np
import scipy.sparse as sp

x = np.zeros((4, 6), np.float32)
x[0, 1], x[1, 5], x[3, 0], x[3, 4] = 1, 0.5, 2, -3
edges = np.array([[0, 1, 2], [1, 2, 2]])
y = np.array([1, 0, 2, 1])

np.savez("tensors.npz", x=x, edge_index=edges, y=y, train_mask=y == 1, name=np.array("four"))
np.savez_compressed(  # columns stand together in edge_index
    "fortran.npz", x=x.astype(">f8"), edge_index=np.ascontiguousarray(edges.T).T.astype(np.int32),
    y=y[:, None].astype(np.uint64), node_year=np.array([2016, 2017, 2018, 2019], np.int16))

adj = sp.csr_matrix((np.ones(4), ([0, 1, 2, 3], [1, 2, 2, 3])), (4, 4))
adj.data[3] = 0  # an entry that is stored, but no edge
attr = sp.csr_matrix(x)
attr.indices[2:4] = attr.indices[2:4][::-1].copy()  # scipy does not always sort
attr.data[2:4] = attr.data[2:4][::-1].copy()
parts = {f"{name}{part}": getattr(m, part) for name, m in [("adj", adj), ("attr", attr)] for part in ["data", "indices", "indptr", "shape"]}
np.savez("matrices.npz", **{k.replace("adj", "adj_").replace("attr", "attr_"): v for k, v in parts.items()}, labels=y)
