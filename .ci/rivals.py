"""What a user of PyTorch would write for the stream of BenchmarkEncoder, timed: PyTorch Geometric's loader of all neighbours,
and sums kept by hand. The graph and the network have the benchmark's shape (cmd/lab/bench/workload.go), one thread has them.

    pip install torch torch_geometric pyg-lib  # or torch-scatter and torch-sparse
    python -W ignore .ci/rivals.py; go test ./cmd/lab/bench -run '^$' -bench Encoder -benchtime 1x
"""

import random
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch_geometric.data import Data
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import GraphSAGE

NODES, NAMED, FEATURES, HIDDEN, EMBEDDING, WINDOW = 169_000, 7, 128, 128, 64, 500


def grow(count: int) -> Tensor:
    """Returns the nodes that each node names: a random end of a random earlier edge, so often as it has edges."""
    draw, ends = random.Random(1), [0] * NAMED
    for v in range(1, count):
        for _ in range(NAMED):
            e = draw.randrange(NAMED * v)
            ends.append(ends[e] if draw.random() < 0.5 else e // NAMED)
    return torch.tensor(ends).reshape(count, NAMED)


class Sums:
    """The sums of a GraphSAGE of two layers, kept as edges come. What adds up is multiplied once, as a node enters."""

    def __init__(self, model: GraphSAGE, capacity: int) -> None:
        self.one, self.two = model.convs
        self.own = torch.zeros(capacity, HIDDEN)
        self.message = torch.zeros(capacity, HIDDEN)
        self.sums = torch.zeros(capacity, HIDDEN)
        self.degree = torch.zeros(capacity, 1)
        self.length = 0

    def arrive(self, x: Tensor, named: Tensor) -> Tensor:
        """Adds nodes with their edges, which are of both directions, and returns their embeddings."""
        lo, self.length = self.length, self.length + len(x)
        new = slice(lo, self.length)
        self.own[new], self.message[new] = self.one.lin_r(x), x @ self.one.lin_l.weight.T
        self.own[new] += self.one.lin_l.bias
        ids, to = torch.arange(lo, self.length).repeat_interleave(NAMED), named.flatten()
        self.sums.index_add_(0, to, self.message[ids])
        self.sums.index_add_(0, ids, self.message[to])
        self.degree.index_add_(0, torch.cat([to, ids]), torch.ones(2 * len(to), 1))
        hidden = self.hidden(to).reshape(len(x), NAMED, HIDDEN)
        # A node of the window that a later one names has it as a neighbour, too.
        mean, inside = hidden.sum(1), to >= lo
        mean.index_add_(0, to[inside] - lo, self.hidden(ids[inside]))
        return self.two.lin_l(mean / self.degree[new]) + self.two.lin_r(self.hidden(torch.arange(lo, self.length)))

    def hidden(self, nodes: Tensor) -> Tensor:
        return torch.relu(self.own[nodes] + self.sums[nodes] / self.degree[nodes])


def timed(name: str, per: int, windows: int, step: Callable[[int], Tensor]) -> list[Tensor]:
    """Times windows, three of them not, in CPU time, to which others add less, and prints the median rate as the benchmark does."""
    taken, found = [], []
    for i in range(windows):
        begun = time.process_time()
        found.append(step(i))
        taken.append(time.process_time() - begun)
    print(f"{name}: {per / statistics.median(taken[3:]):,.0f} arrivals/s", flush=True)
    return found


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    windows, loaded, singles = 60, 8, 2000
    count = NODES + windows * WINDOW + singles
    x, named = torch.randn(512, FEATURES)[torch.randint(512, (count,))], grow(count)
    model = GraphSAGE(FEATURES, HIDDEN, 2, EMBEDDING).eval()

    sums = Sums(model, count)

    def arrive(n: int) -> Tensor:
        return sums.arrive(x[sums.length : sums.length + n], named[sums.length : sums.length + n])

    while sums.length < NODES:
        arrive(min(1000, NODES - sums.length))
    by_hand = timed("sums by hand, windows of 500", WINDOW, windows, lambda i: arrive(WINDOW))
    timed("sums by hand, one at a time", 1, singles, lambda i: arrive(1))

    loaders = []  # a graph that grows has a new one each time, which is not timed
    for i in range(loaded):
        n = NODES + (i + 1) * WINDOW
        ids, to = torch.arange(n).repeat_interleave(NAMED), named[:n].flatten()
        data = Data(x=x[:n], edge_index=torch.stack([torch.cat([ids, to]), torch.cat([to, ids])]))
        loaders.append(NeighborLoader(data, [-1, -1], input_nodes=torch.arange(n - WINDOW, n), batch_size=WINDOW))

    def load(i: int) -> Tensor:
        batch = next(iter(loaders[i]))
        return model(batch.x, batch.edge_index)[: batch.batch_size]

    by_loader = timed("NeighborLoader without a limit, windows of 500", WINDOW, loaded, load)
    print(f"largest difference of the two: {max(float((a - b).abs().max()) for a, b in zip(by_hand, by_loader)):.1g}")


main()
