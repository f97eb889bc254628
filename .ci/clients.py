"""Run by .ci/python: sends a graph of two classes and reads its predictions, with
Python clients of Kafka and without any code of gvbll."""

import json
import random
import sys
import time
from pathlib import Path

PEOPLE = 300
CLASSES = ["physics", "biology"]


def graph(seed):
    """Yields (number, class, features, neighbours): classes differ in both features."""
    draw = random.Random(seed)
    for i in range(PEOPLE):
        c = draw.randrange(2)
        x = [draw.gauss(2 * c - 1, 1), draw.gauss(1 - 2 * c, 1)]
        yield i, c, x, draw.sample(range(i), min(i, 2))


def write(folder):
    """Writes the data set that the model is trained on."""
    folder.mkdir()
    nodes, edges = ["id,label,x,y"], ["source,target"]
    for i, c, x, neighbours in graph(1):
        nodes.append(f"paper-{i},{CLASSES[c]},{x[0]},{x[1]}")
        edges += [f"paper-{i},paper-{j}" for j in neighbours]
    (folder / "nodes.csv").write_text("\n".join(nodes) + "\n")
    (folder / "edges.csv").write_text("\n".join(edges) + "\n")


def run(broker, prefix, page):
    # Runs the program in docs/wire-format.md up to its endless loop, with this broker
    # and prefix.
    text = Path(page).read_text().split("```python\n")[1].split("```")[0]
    text = text.split("while True:")[0].replace("localhost:9092", broker).replace('"gvbll.', f'"{prefix}.')
    doc = {}
    exec(text, doc)

    from kafka import KafkaProducer

    other = KafkaProducer(bootstrap_servers=broker, acks="all")
    header = [("content-type", b"application/json")]

    def as_json(topic, key, value):
        other.send(f"{prefix}.{topic}", key=key.encode(), value=json.dumps(value).encode(), headers=header)

    want = {"paper-7": None}  # sent by the program of the page; its class is unknown
    for i, c, x, neighbours in graph(2):
        for client in ("c", "k"):
            name, near = f"{client}-{i}", [f"{client}-{j}" for j in neighbours]
            want[name] = CLASSES[c]
            if client == "c":
                doc["node"](name, x, near)
                doc["label"](name, CLASSES[c])
            else:
                as_json("nodes", name, {"id": name, "features": x, "neighbours": near})
                as_json("labels", name, {"node": name, "class": CLASSES[c]})
    doc["producer"].flush()
    other.flush()

    import msgpack

    right, seen = 0, set()
    until = time.monotonic() + 120
    while seen != want.keys():
        missing = sorted(want.keys() - seen)
        assert time.monotonic() < until, f"after 120 s no prediction of {len(missing)} nodes of {len(want)}: {missing[:20]}"
        message = doc["consumer"].poll(1.0)
        if message is None:
            continue
        assert message.error() is None, message.error()
        p = msgpack.unpackb(message.value())
        name = p["node"]
        assert name in want and name not in seen, f"{name} was predicted twice, or was not sent"
        assert message.key().decode() == name
        assert abs(sum(p["probabilities"]) - 1) < 1e-5 and p["confidence"] == max(p["probabilities"]), p
        assert abs(p["total_uncertainty"] - p["aleatoric_uncertainty"] - p["epistemic_uncertainty"]) < 1e-5, p
        seen.add(name)
        right += p["class"] == want[name]
    share = right / (len(want) - 1)
    print(f"{len(seen)} predictions of {len(want)} nodes, {share:.3f} right")
    assert share > 0.8


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    write(Path(rest[0])) if command == "write" else run(*rest)
