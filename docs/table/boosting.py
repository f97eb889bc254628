"""Gradient-boosted trees, refitted after every step of a stream, on what surrounds a node.

    python3 boosting.py DATA [--train-until T | --train-share S] [--steps N] [--delay D] [--seed K] [--rows now|arrival]

DATA is a folder of tables or of OGB's raw layout (docs/datasets.md), without gaps in its features. The split, the
order and the scores are those of `lab table`, but for draws. Nodes are learned with their rows as they are now, or as
they were on arrival, with older neighbours only. Needs scikit-learn.
"""
import argparse, csv, gzip, os
import numpy as np
from scipy.sparse import csr_array
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

a = argparse.ArgumentParser()
a.add_argument("data")
for flag, kind, usual in [("until", float, None), ("share", float, 0.1)]:
    a.add_argument("--train-" + flag, dest=flag, type=kind, default=usual)
for flag, kind, usual in [("steps", int, 50), ("delay", int, 0), ("seed", int, 1), ("rows", str, "now")]:
    a.add_argument("--" + flag, type=kind, default=usual)
a = a.parse_args()

def table(name):
    path = os.path.join(a.data, name + ".csv")
    with gzip.open(path + ".gz", "rt") if os.path.exists(path + ".gz") else open(path) as f:
        return list(csv.reader(f))

time = None
if os.path.exists(os.path.join(a.data, "nodes.csv")):
    (head, *nodes), (_, *edges) = table("nodes"), table("edges")
    at = {id: i for i, id in enumerate(n[head.index("id")] for n in nodes)}
    names = sorted({n[head.index("label")] for n in nodes} - {""})
    y = np.array([names.index(n[head.index("label")]) if n[head.index("label")] else -1 for n in nodes])
    time = np.array([float(n[head.index("time")]) for n in nodes])
    x = np.array([[float(v) for v, h in zip(n, head) if h not in ("id", "label", "time")] for n in nodes])
    edges = np.array([[at[e[0]], at[e[1]]] for e in edges])
else:
    x, y = np.array(table("node-feat"), float), np.array(table("node-label"), float).astype(int)[:, 0]
    edges = np.array(table("edge"), float).astype(int)
    if os.path.exists(os.path.join(a.data, "node_year.csv.gz")):
        time = np.array(table("node_year"), float)[:, 0]

# The nodes in the order of their arrival: those that train, then the steps.
rng, n, classes = np.random.default_rng(a.seed), len(y), y.max() + 1
order = rng.permutation(n) if time is None else np.argsort(time, kind="stable")
if a.until is not None:
    train = (y >= 0) & (time < a.until)
else:
    train, known = np.zeros(n, bool), order[y[order] >= 0]
    parts = [known] if time is not None else [known[y[known] == c] for c in range(classes)]
    for part in parts:
        train[part[: max(1, round(a.share * len(part)))]] = True
stream = order[~train[order]]
steps = np.array_split(stream, a.steps)

edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
src, dst = np.concatenate([edges, edges[:, ::-1]]).T
came, place = np.full(n, -1), np.argsort(order)  # the step of a node, and its place in the order
for t, nodes in enumerate(steps):
    came[nodes] = t

def rows(t, labels):
    """What surrounds every node in the graph of step t: its features, its neighbours' mean, its degree, and the labels
    at one and two hops as counts and shares, its own not among them."""
    there = (came[src] <= t) & (came[dst] <= t)
    if a.rows == "arrival":
        there &= (came[src] < came[dst]) | (came[src] == came[dst]) & (place[src] < place[dst])
    near = csr_array((np.ones(there.sum()), (dst[there], src[there])), (n, n))
    degree, hot = near.sum(1)[:, None], np.zeros((n, classes))
    hot[labels >= 0, labels[labels >= 0]] = 1
    one = near @ hot
    two = near @ one - (degree * hot if a.rows == "now" else 0)
    share = lambda q: q / np.maximum(q.sum(1, keepdims=True), 1)
    return np.hstack([x, near @ x / np.maximum(degree, 1), degree, one, share(one), share(two)])

def fit(z, labels):
    known = np.flatnonzero(labels >= 0)
    return HistGradientBoostingClassifier(random_state=0).fit(z[known], labels[known])

labels, scores, served = np.where(train, y, -1), [], []
past = rows(-1, labels)  # of all nodes, to learn from
model = fit(past, labels)
for t, nodes in enumerate(steps):
    now, p = rows(t, labels), np.full((len(nodes), classes), 1e-9)
    past[nodes] = now[nodes]
    p[:, model.classes_] = np.maximum(model.predict_proba(now[nodes]), 1e-9)
    p, truth = p[y[nodes] >= 0], y[nodes][y[nodes] >= 0]
    if len(truth):
        scores.append([np.mean(p.argmax(1) == truth), -np.mean(np.log(p[np.arange(len(truth)), truth]))])
        served.append(np.column_stack([truth, p]))
    if t >= a.delay and t + 1 < len(steps):
        labels[steps[t - a.delay]] = y[steps[t - a.delay]]
        model = fit(rows(t, labels) if a.rows == "now" else past, labels)
all = np.vstack(served)
auc = f", AUC {roc_auc_score(all[:, 0] == 0, all[:, 1]):.3f}" if classes == 2 else ""
print(f"{a.data}: accuracy {100 * np.mean(scores, 0)[0]:.1f} %, NLL {np.mean(scores, 0)[1]:.3f}{auc}, over {len(all)} labels")
