"""Writes rgcn.json: two layers of PyTorch Geometric's RGCNConv(aggr="mean") by its formula,

    x'_i = Theta_root x_i + bias + sum_r (1/|N_r(i)|) sum_{j in N_r(i)} Theta_r x_j

in double precision. Run in this folder: python3 rgcn.py > rgcn.json
"""
import json
import random

random.seed(20)
NODES, RELATIONS, WIDTH = 12, 3, (4, 5, 3)


def number():
    return round(random.gauss(0, 0.7), 4)


def matrix(rows, columns):
    return [[number() for _ in range(columns)] for _ in range(rows)]


def times(x, w):  # x as a row
    return [sum(x[k] * w[k][j] for k in range(len(x))) for j in range(len(w[0]))]


def plus(a, b):
    return [p + q for p, q in zip(a, b)]


edges = random.sample([(r, i, j) for r in range(RELATIONS) for i in range(NODES) for j in range(NODES) if i != j], 50)
out = {"x": matrix(NODES, WIDTH[0]), "src": [j for _, _, j in edges], "dst": [i for _, i, _ in edges], "type": [r for r, _, _ in edges]}
h = out["x"]
for layer in range(2):
    weight = [matrix(WIDTH[layer], WIDTH[layer + 1]) for _ in range(RELATIONS)]
    root, bias = matrix(WIDTH[layer], WIDTH[layer + 1]), [number() for _ in range(WIDTH[layer + 1])]
    out["w%d" % layer], out["root%d" % layer], out["bias%d" % layer] = weight, root, bias
    following = []
    for i in range(NODES):
        y = plus(times(h[i], root), bias)
        for r in range(RELATIONS):
            near = [j for s, t, j in edges if s == r and t == i]
            for j in near:
                y = plus(y, [v / len(near) for v in times(h[j], weight[r])])
        following.append([max(v, 0) for v in y] if layer == 0 else y)
    h = following
out["z"] = h
print(json.dumps(out))
