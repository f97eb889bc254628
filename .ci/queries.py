#!/usr/bin/env python3
"""Executes every query of every panel, variable, annotation and rule on a
Prometheus. Each must return data, unless NONE or EITHER below gives a reason.

    queries.py URL --graph NAME [--fresh] [--rules] [--documented FILE] DASHBOARD...

--fresh: nothing has been sent yet, so a panel without data must say why (noValue).
--rules: checks the rules too, and that no alert fires.
--documented: every metric must be in FILE.
"""

import argparse, math, re, sys, time

from boards import BEFORE, Prometheus, fill, read

# Panels that have no data although the graph is served and labelled, or a query of one
# (its refId after the title), or for one graph (after that), and why. If one has data,
# that is an error.
NONE = {
    ("stream.json", "Age of the newest checkpoint", "A", "demo"): "the demo writes no checkpoints",
    ("posterior.json", "Weights", "A", "demo"): "the paper's head serves",
    ("posterior.json", "Shares of the mixture", "A", "demo"): "the paper's head serves",
    ("posterior.json", "Biases, by class", "A", "demo"): "the paper's head serves",
}
# Those that may or may not have data.
EITHER = {
    ("stream.json", "Latency, 50th and 99th percentile", "E"): "only if arrivals carry a time",
    ("stream.json", "Latency, 50th and 99th percentile", "F"): "only if arrivals carry a time",
    ("calibration.json", "By value, over this range"): "only with --by",
    ("calibration.json", "Accuracy by value", "C"): "only with --by",
    ("calibration.json", "Reliability of the class"): "only of bins that have 20 labels",
    ("stream.json", "Dead letters"): "only if events are refused",
    ("stream.json", "Last commit"): "A or B: as usual, or stopped at once",
    ("stream.json", "Waits for Kafka, and standbys", "A"): "only while one does",
    ("stream.json", "Backlog by topic", "B"): "only while a transaction stays open",
    ("stream.json", "Time to an answer, and results"): "only with --decide",
    ("stream.json", "Cells, the worst first"): "only of a graph of several cells",
    ("stream.json", "Events", "G"): "only if nodes are predicted again",
    ("calibration.json", "Coverage", "E"): "only if it abstains",
    ("calibration.json", "Ranking, over a day", "B"): "B or C: many labels of a class, or few",
    ("calibration.json", "Ranking, over a day", "C"): "B or C: many labels of a class, or few",
    ("stream.json", "Throttled by a quota"): "only if a broker has a quota",
    ("calibration.json", "Accuracy for all, and of labels"): "only if labels are asked for",
    ("stream.json", "Attributes, the most costly first"): "only of features by name",
    ("stream.json", "Mean of attributes"): "only of features by name",
    ("stream.json", "Age of the newest base"): "only with --base",
    ("stream.json", "Oldest record that is needed"): "only with --base",
    ("graphs.json", "The hour before"): "only after an hour",
    ("graphs.json", "Graphs, the worst first", "F"): "only while an alert fires",
    ("calibration.json", "NLL: served less shadow"): "only with a model in the shadow",
    ("calibration.json", "Models and their trial"): "only of a trial",
} | {(board, "Alerts"): "only while one fires" for board in ("graphs.json", "calibration.json", "posterior.json", "stream.json")} | {
    (board, title, ref): why
    for board in ("calibration.json", "posterior.json", "stream.json")
    for title, ref, why in (
        ("Last label", "A", "A or B: as usual, or stopped"), ("Last label", "B", "A or B: as usual, or stopped"),
        ("Latency", "A", "only if arrivals carry a time"), ("Latency", "C", "only if arrivals carry a time"),
        ("Lag", "A", "only while a worker steps"),
    )
} | {
    ("calibration.json", "NLL, by head", "C", "demo"): "with the paper's head, only while static serves",
    ("calibration.json", "Gain, nats", "A"): "A or C: more than chance, or not",
    ("calibration.json", "Gain, nats", "C"): "A or C: more than chance, or not",
    ("calibration.json", "What acting brought"): "only with --act",
    ("calibration.json", "Ranking, over a day"): "only once its rules have run",
    ("stream.json", "Workers", "A"): "A or B: all there, or one is missing",
    ("stream.json", "Workers", "B"): "A or B: all there, or one is missing",
    ("stream.json", "Clock of --keep", "A"): "only with --keep",
    ("stream.json", "Later than the objective"): "only if arrivals carry a time",
    ("stream.json", "Work that waits"): "only while events are stepped",
    ("graphs.json", "Work that waits, by graph"): "only while events are stepped",
    ("calibration.json", "Accuracy by degree"): "only of degrees that have 50 labels",
}
# Series of rules and alerts that need not be there.
RARE = {
    "graph:gvbll_act_recall:ratio1d": "only with --act", "graph:gvbll_act_recall:error1d": "only with --act",
    "graph_class:gvbll_class_worse:ratio1d": "only if one is", "graph:gvbll_labels_stopped:seconds": "only if they have",
    "graph:gvbll_label_silence:ended": "only after one",
    "gvbll_topic_at_risk": "only if a topic is", "gvbll_unknown_class_labels_total": "only if such labels come",
    "graph_topic:gvbll_input_lag_records:broker": "only if kafka-exporter is scraped",
    "gvbll_pool_label_rate": "only with --label-rates", "gvbll_cells": "only of a graph of cells",
    "gvbll_cell_owner": "only of a graph of cells", "gvbll_cell_lag_seconds": "only of a graph of cells",
    "gvbll_cell_verdict_points": "only of a graph of cells", "graph:gvbll_cell_lag_seconds:sum": "only of a graph of cells",
} | {
    f"gvbll_attribute_{name}": "only of features by name" for name in ("values_total", "rows_total", "trained_share", "standard_deviations_total")
}

p = argparse.ArgumentParser()
p.add_argument("url")
p.add_argument("dashboards", nargs="*")
p.add_argument("--graph", required=True)
p.add_argument("--fresh", action="store_true")
p.add_argument("--rules", action="store_true")
p.add_argument("--documented")
args = p.parse_intermixed_args()
prom, failures, empty = Prometheus(args.url), [], []


def data(expr, instant):
    """Returns the number of series of an expression that have a number."""
    if instant:
        return len(prom.instant(expr))
    now = time.time()
    return sum(any(not math.isnan(float(v[1])) for v in s["values"]) for s in prom.range(expr, now - 600, now, 5))


def reason(reasons, board, p, ref):
    if reasons is EITHER and any(t["refId"] == ref and t["legendFormat"] == BEFORE for t in p["targets"]):
        return "only after an hour"
    keys = (board, p["title"]), (board, p["title"], ref), (board, p["title"], ref, args.graph)
    return next((reasons[k] for k in keys if k in reasons), None)


def says_why(p):
    """Returns whether a panel without data says why."""
    d = p["fieldConfig"]["defaults"]
    return d.get("noValue") or any(m["type"] == "special" for m in d.get("mappings", []))


MOST_LINES = 8  # of a chart, beyond which colours look alike


def panel(board, p):
    lines = 0
    for t in p["targets"]:
        expr, ref = fill(t["expr"], args.graph), t["refId"]
        try:
            some = data(expr, t.get("instant", False))
        except RuntimeError as e:
            failures.append(f"{board}: {p['title']}: {e}: {expr}")
            continue
        lines += some
        none, either = reason(NONE, board, p, ref), reason(EITHER, board, p, ref)
        if some:
            if none and not args.fresh:
                failures.append(f"{board}: {p['title']}: has data, but NONE says that it has none")
        elif args.fresh:
            if not says_why(p):
                failures.append(f"{board}: {p['title']}: no data on a fresh start, and nothing that says why: {expr}")
        elif none or either:
            empty.append(f"{board}: {p['title']}: {none or either}")
        else:
            failures.append(f"{board}: {p['title']}: no data: {expr}")
    if p["type"] == "timeseries" and lines > MOST_LINES:
        failures.append(f"{board}: {p['title']}: {lines} lines, want {MOST_LINES} at most")


for board, d in read(args.dashboards).items():
    for v in d["templating"]["list"]:
        if v["type"] != "query":
            continue
        query = fill(v["query"]["query"], args.graph)
        if m := re.fullmatch(r"label_values\((.*), (\w+)\)", query):
            values = prom.api(f"label/{m[2]}/values", **{"match[]": m[1]})
        else:
            m = re.fullmatch(r"query_result\((.*)\)", query)
            values = {labels.get(v["name"].removesuffix("s")) for labels, _ in prom.instant(m[1])}
        if not values and not (args.fresh and v["name"] == "class") or v["name"] == "graph" and args.graph not in values:
            failures.append(f"{board}: variable {v['name']} has the values {values}")
    for a in d["annotations"]["list"]:
        if "expr" in a:
            data(fill(a["expr"], args.graph), False)  # takeovers, if there were any
    for p in d["panels"]:
        if p["type"] != "row":
            panel(board, p)

if args.rules:
    names = set(prom.api("label/__name__/values"))
    for group in prom.api("rules")["groups"]:
        for r in group["rules"]:
            if r["health"] != "ok":
                failures.append(f"rule {r['name']}: {r.get('lastError')}")
            if r["type"] == "recording":
                if not data(r["query"], True) and r["name"] not in names and r["name"] not in RARE:
                    failures.append(f"rule {r['name']}: no data: {r['query']}")
                continue
            # An alert's condition may have no data, but the series that it names must.
            data(r["query"], True)
            for name in re.findall(r"[a-z_:]*gvbll_[a-z0-9_:]+", r["query"]):
                if name not in names and name not in RARE:
                    failures.append(f"alert {r['name']}: there is no {name}")
            firing = [a for a in r["alerts"] if a["state"] == "firing" and a["labels"].get("graph", args.graph) == args.graph]
            if firing:
                failures.append(f"alert {r['name']} fires without reason: {firing}")

if args.documented:
    text = open(args.documented).read()
    for name in prom.api("label/__name__/values"):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        if name.startswith("gvbll_") and not re.search(f"`({base}|{name})[`{{]", text):
            failures.append(f"{name} is not in {args.documented}")

for e in empty:
    print("no data,", e)
print(f"{args.graph}{', fresh' if args.fresh else ''}: {prom.ran} queries, {len(failures)} failures")
if failures:
    sys.exit("\n".join(failures))
