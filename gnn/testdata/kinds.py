"""Writes kinds.json: encoders of two layers over three kinds of edges, of which one is directed, by
PyTorch Geometric in double precision: RGCNConv(aggr="mean"), HeteroConv of SAGEConvs, and the
latter's weights on edges with weights, which SAGEConv does not take: there GraphConv sums with the
shares of the weights; and GCNConv with edge_weight, to which all kinds are one and undirected, so that
an edge between the same nodes has the weight that was said last. Embeddings are given after each step: of additions, of removals and more
additions, and of changed weights. Run in this folder: python3 kinds.py > kinds.json
"""
import json
import random

import torch
from torch_geometric.nn import GCNConv, GraphConv, HeteroConv, RGCNConv, SAGEConv

random.seed(20)
torch.manual_seed(20)
torch.set_default_dtype(torch.float64)
NODES, WIDTH = 14, (4, 5, 3)
# The relations by mean: of a directed kind, PyTorch Geometric's reverse edges are a node's own.
RELATIONS = ["cites", "rev_paid", "paid", "uses"]
TYPES = [("node", r, "node") for r in RELATIONS]

x = torch.randn(NODES, WIDTH[0])
rgcn = torch.nn.ModuleList([RGCNConv(WIDTH[l], WIDTH[l + 1], len(RELATIONS), aggr="mean") for l in range(2)])
hetero = torch.nn.ModuleList([HeteroConv({t: SAGEConv(WIDTH[l], WIDTH[l + 1]) for t in TYPES}, aggr="sum") for l in range(2)])


def draw_weights(layers):
    for p in layers.parameters():
        torch.nn.init.normal_(p, std=0.5)
        p.data = p.data.float().double()  # as a file of float32 has it


draw_weights(torch.nn.ModuleList([rgcn, hetero]))
gcn = torch.nn.ModuleList([GCNConv(WIDTH[l], WIDTH[l + 1]) for l in range(2)])
draw_weights(gcn)
x = x.float().double()


def messages(edges):  # by relation: of whom, to whom, and the weights
    by = {r: ([], [], []) for r in RELATIONS}
    for (source, target, kind), weight in edges.items():
        ways = [(kind, source, target), ("rev_paid" if kind == "paid" else kind, target, source)]
        for relation, u, v in ways:
            for column, value in zip(by[relation], (u, v, weight)):
                column.append(value)
    return by


def embed(edges, pairs):
    by = messages(edges)
    index = {t: torch.tensor([by[t[1]][0], by[t[1]][1]], dtype=torch.long).view(2, -1) for t in TYPES}
    all_index = torch.cat([index[t] for t in TYPES], dim=1)
    all_types = torch.cat([torch.full((index[t].size(1),), k) for k, t in enumerate(TYPES)])
    ends = torch.tensor([*pairs, *[p[::-1] for p in pairs]]).t()
    h = g = w = c = x
    for l in range(2):
        h = rgcn[l](h, all_index, all_types)
        g = hetero[l]({"node": g}, index)["node"]
        parts = []
        for t in TYPES:
            conv, sage = GraphConv(WIDTH[l], WIDTH[l + 1]), hetero[l].convs[t]
            conv.lin_rel, conv.lin_root = sage.lin_l, sage.lin_r
            weight = torch.tensor(by[t[1]][2])
            total = torch.zeros(NODES).index_add(0, index[t][1], weight)
            parts.append(conv(w, index[t], weight / total[index[t][1]]))
        w = sum(parts)
        c = gcn[l](c, ends, torch.tensor([*pairs.values()] * 2))
        if l == 0:
            h, g, w, c = h.relu(), g.relu(), w.relu(), c.relu()
    return {"rgcn": h.tolist(), "hetero": g.tolist(), "weighted": w.tolist(), "gcn": c.tolist()}


def draw(n, edges):
    drawn = []
    while len(drawn) < n:
        source, target, kind = random.randrange(NODES), random.randrange(NODES), random.choice(["cites", "paid", "uses"])
        taken = [(source, target, kind)] + ([] if kind == "paid" else [(target, source, kind)])
        if source != target and not any(t in edges or t in [tuple(d[:3]) for d in drawn] for t in taken):
            drawn.append([source, target, kind, round(random.uniform(0.1, 9), 3)])
    return drawn


edges, pairs, steps = {}, {}, []
for step in range(3):
    changes = {"removed": [], "said": []}
    if step == 1:
        changes["removed"] = [list(pair) for pair in {tuple(sorted(e[:2])) for e in random.sample(sorted(edges), 8)}]
        edges = {e: w for e, w in edges.items() if sorted(e[:2]) not in changes["removed"]}
        pairs = {p: w for p, w in pairs.items() if list(p) not in changes["removed"]}
    if step < 2:
        changes["said"] = draw([45, 12][step], edges)
    else:
        changes["said"] = [[*e, round(random.uniform(0.1, 9), 3)] for e in random.sample(sorted(edges), 20)]
    for source, target, kind, weight in changes["said"]:
        edges[source, target, kind] = torch.tensor(weight).float().item()
        pairs[min(source, target), max(source, target)] = edges[source, target, kind]
    steps.append({**changes, "z": embed(edges, pairs)})


def tensors(layers):
    return {f"convs.{name}": {"shape": list(t.shape), "values": t.flatten().tolist()} for name, t in layers.state_dict().items()}


print(json.dumps({"x": x.tolist(), "rgcn": tensors(rgcn), "hetero": tensors(hetero), "gcn": tensors(gcn), "steps": steps}))
