#!/usr/bin/env python3
"""Looks at the dashboards of a graph, and checks what they show.

    look.py URL --graph NAME SITUATION DASHBOARD...

SITUATION is one of
    alive            one worker owns the graph, and every number is of something scraped
    dead             no worker lives: every number says so in red
    alone            an owner without a standby: orange
    cut              workers live, and wait for Kafka: every board says so in red
    ledger=FILE      the headlines equal the output of gvbll status --json in FILE
    pool=URL         weights, shares and biases of the pool are those of /v1/pool there
    refused=N        N events were refused
    takeovers=N      N times at which a worker took over are marked
"""

import argparse, json, sys, time, urllib.request

from boards import Prometheus, display, fill, look, read

p = argparse.ArgumentParser()
p.add_argument("url")
p.add_argument("situation")
p.add_argument("dashboards", nargs="+")
p.add_argument("--graph", required=True)
args = p.parse_intermixed_args()
prom, boards, failures, looked = Prometheus(args.url), read(args.dashboards), [], 0
situation, _, given = args.situation.partition("=")


def expect(ok, what):
    global looked
    looked += 1
    if not ok:
        failures.append(what)


def panels(kind):
    for name, board in boards.items():
        for panel in board["panels"]:
            if panel["type"] == kind:
                yield name, panel


def panel(board, title, kind="stat"):
    return next(p for n, p in panels(kind) if n == board and p["title"] == title)


def number(board, title):
    """Returns the value of a panel of one number, and its colour."""
    return look(prom, panel(board, title), args.graph)[0]


def row():
    """Returns the graph's row of the Graphs board: the value of each column."""
    table = panel("graphs.json", "Graphs, the worst first", "table")
    names = table["transformations"][-2]["options"]["renameByName"]
    cells = {}
    for t in table["targets"]:
        column = names.get(f"Value #{t['refId']}")
        if column is None:  # what fires is in words
            continue
        values = [v for m, v in prom.instant(fill(t["expr"], ".*")) if m.get("graph") == args.graph]
        expect(len(values) < 2, f"Graphs: {column} has {len(values)} values for one graph")
        cells[column] = display(table, values[0] if values else None, field=column)
    return cells


if situation == "dead":
    for name, one in panels("stat"):
        if name == "graphs.json":  # of all graphs
            continue
        for text, colour in look(prom, one, args.graph):
            expect(text in ("not scraped", "no owner") and colour == "red", f"{name}: {one['title']}: {text}, {colour}, though no worker lives")
    cells = row()
    states = panel("graphs.json", "Graphs, the worst first", "table")["targets"][0]["expr"]
    worst = max(prom.instant(fill(states, ".*")), key=lambda s: s[1])[0]
    expect(worst["graph"] == args.graph, f"Graphs: the first row is {worst}")
    expect(cells["state"] == ("no owner", "red"), f"Graphs: {cells['state']}")
    expect(cells["workers"] == (0, "red"), f"Graphs: {cells['workers']} workers")
    for column in "ECE beyond chance", "accuracy", "gain", "labels", "backlog":
        expect(cells[column][0] == "–", f"Graphs: {column} is {cells[column]}, though no worker lives")
elif situation == "cut":
    for name in "calibration.json", "posterior.json", "stream.json":
        expect(number(name, "Verdict") == ("no broker", "red"), f"{name}: Verdict: {number(name, 'Verdict')}, though the broker is gone")
    expect(row()["state"] == ("no broker", "red"), f"Graphs: {row()['state']}, though the broker is gone")
elif situation in ("alive", "alone"):
    for name, one in panels("stat"):
        for text, colour in look(prom, one, args.graph):
            expect(text != "not scraped", f"{name}: {one['title']}: {text}, though a worker is scraped")
    for name in "calibration.json", "posterior.json", "stream.json":
        expect(number(name, "Verdict")[0] not in ("no owner", "no broker"), f"{name}: Verdict: {number(name, 'Verdict')}")
    cells = row()
    expect(cells["state"][0] not in ("no owner", "no broker"), f"Graphs: {cells['state']}")
    if situation == "alone":
        expect(number("stream.json", "Workers") == (1, "orange"), f"Workers: {number('stream.json', 'Workers')}")
elif situation == "ledger":
    now = json.load(open(given))["last"]
    cells = row()
    for board, title, column, want, near in [
        ("calibration.json", "ECE", None, now["ece"], 0.003),
        ("calibration.json", "Accuracy", "accuracy", now["acc"], 0.003),
        ("calibration.json", "Gain, nats", "gain", now["static_nll"] - now["nll"], 0.005),
        ("calibration.json", "Labels", "labels", now["labels"], 0.01 * now["labels"]),
    ]:
        got = number(board, title)[0]
        print(f"{title}: {got:.4f} on the board, {want:.4f} in the ledger")
        expect(abs(got - want) <= near, f"{title}: {got}, and the ledger says {want}")
        if column and not (column == "gain" and cells[column][0] == "–"):  # a gain that chance explains is a dash there
            expect(abs(cells[column][0] - want) <= near, f"Graphs: {column}: {cells[column][0]}, and the ledger says {want}")
    beyond, shown = 100 * (now["ece"] - now["ece_chance"]), cells["ECE beyond chance"]
    expect(shown == ("calibrated", "green") if beyond <= 0 else abs(shown[0] - beyond) < 0.3, f"Graphs: ECE beyond chance: {shown}, and the ledger says {beyond}")
    bars = panel("calibration.json", "Labels by confidence", "trend")
    got = sum(v for _, v in prom.instant(fill(bars["targets"][1]["expr"], args.graph)))
    expect(abs(got - now["labels"]) <= 0.02 * now["labels"], f"Labels by confidence: {got} of {now['labels']} labels")
    by = panel("calibration.json", "By value, over this range", "table")["targets"][0]
    got = sum(v for _, v in prom.instant(fill(by["expr"], args.graph)))
    expect(abs(got - sum(x["labels"] for x in now["by"]["values"])) <= 0.02 * now["labels"], f"By value: {got} labels, and the ledger says {now['by']}")
elif situation == "pool":
    pool = json.load(urllib.request.urlopen(f"{given}/v1/pool"))
    for title, label, want in [
        ("Weights", "head", {h["head"]: h["weight"] for h in pool["heads"]}),
        ("Shares of the mixture", "head", {h["part"]: h["share"] for h in pool["parts"]}),
        ("Biases, by class", "class", {c["class"]: c["bias"] for c in pool["bias"]}),
    ]:
        lines = {m[label]: v for m, v in prom.instant(fill(panel("posterior.json", title, "timeseries")["targets"][0]["expr"], args.graph))}
        expect(0 < len(lines) <= 8, f"{title}: {len(lines)} lines")
        for name, v in lines.items():
            expect(abs(v - want[name]) < 1e-6, f"{title}: {name} has {v}, and /v1/pool says {want[name]}")
        if label == "head":
            least = min(lines.values())
            expect(not any(v > least + 1e-6 for name, v in want.items() if name not in lines), f"{title}: the largest are not shown: {lines} of {want}")
elif situation == "refused":
    want = float(given)
    got = number("stream.json", "Errors")[0]
    expect(abs(got - want) <= 0.1 * want, f"Errors: {got} of {want}")
elif situation == "takeovers":
    marks = next(a for a in boards["stream.json"]["annotations"]["list"] if a["name"] == "Takeovers")
    now = time.time()
    series = prom.range(fill(marks["expr"], args.graph), now - 600, now, 5)
    times = {v for s in series for _, v in s["values"]}
    expect(len(times) == int(given), f"{len(times)} times are marked as takeovers, want {given}")
else:
    sys.exit(f"no such situation: {situation}")

print(f"{args.graph}, {args.situation}: {looked} looks, {len(failures)} failures")
if failures:
    sys.exit("\n".join(failures))
