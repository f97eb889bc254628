#!/usr/bin/env python3
"""Executes every query of every panel, variable, annotation and rule on a
Prometheus. Each must return data, unless NONE or EITHER below gives a reason.

    queries.py URL --graph NAME [--fresh] [--rules] [--documented FILE] DASHBOARD...

--fresh: nothing has been sent yet, so a panel without data must say why (noValue).
--rules: checks the rules too, and that no alert fires.
--documented: every metric must be in FILE.
"""

import argparse, json, math, re, sys, time, urllib.parse, urllib.request

# Panels that have no data although the graph is served and labelled, and why. If one of
# them has data, that is an error.
NONE = {
    ("stream.json", "Age of the newest checkpoint", "demo"): "the demo writes no checkpoints",
}
# Panels that may or may not have data, depending on the time.
EITHER = {
    ("stream.json", "Backlog, in seconds"): "only while the stream goes on",
    ("stream.json", "Age of predictions"): "only if arrivals carry a time",
}

p = argparse.ArgumentParser()
p.add_argument("url")
p.add_argument("dashboards", nargs="*")
p.add_argument("--graph", required=True)
p.add_argument("--fresh", action="store_true")
p.add_argument("--rules", action="store_true")
p.add_argument("--documented")
args = p.parse_intermixed_args()
failures, ran, empty = [], 0, []


def api(path, **params):
    url = f"{args.url}/api/v1/{path}?{urllib.parse.urlencode(params)}"
    try:
        return json.load(urllib.request.urlopen(url))["data"]
    except urllib.error.HTTPError as e:
        raise RuntimeError(json.load(e)["error"])


def number(s):
    return not math.isnan(float(s))


def data(expr, instant):
    """Returns whether an expression has a number."""
    global ran
    ran += 1
    if instant:
        r = api("query", query=expr)["result"]
        return any(number(s["value"][1]) for s in r)
    now = time.time()
    r = api("query_range", query=expr, start=now - 600, end=now, step=5)["result"]
    return any(number(v[1]) for s in r for v in s["values"])


def fill(expr):
    for name, value in {"$__rate_interval": "15s", "$__range": "10m", "$cluster": ".*", "$graph": args.graph, "$instance": ".*"}.items():
        expr = expr.replace(name, value)
    return expr


def panel(board, p):
    key = (board, p["title"])
    for t in p["targets"]:
        expr = fill(t["expr"])
        try:
            some = data(expr, t.get("instant", False))
        except RuntimeError as e:
            failures.append(f"{board}: {p['title']}: {e}: {expr}")
            continue
        if some:
            if not args.fresh and (key in NONE or (*key, args.graph) in NONE) and key not in EITHER:
                failures.append(f"{board}: {p['title']}: has data, but NONE says that it has none")
            continue
        if args.fresh:
            if not p["fieldConfig"]["defaults"].get("noValue"):
                failures.append(f"{board}: {p['title']}: no data on a fresh start, and no noValue that says why: {expr}")
            continue
        reason = NONE.get(key) or NONE.get((*key, args.graph)) or EITHER.get(key)
        if reason:
            empty.append(f"{board}: {p['title']}: {reason}")
        else:
            failures.append(f"{board}: {p['title']}: no data: {expr}")


for path in args.dashboards:
    board = path.rsplit("/", 1)[-1]
    d = json.load(open(path))
    for v in d["templating"]["list"]:
        if v["type"] != "query":
            continue
        m = re.fullmatch(r"label_values\((.*), (\w+)\)", fill(v["query"]["query"]))
        if not api(f"label/{m[2]}/values", **{"match[]": m[1]}):
            failures.append(f"{board}: variable {v['name']} has no values")
    for a in d["annotations"]["list"]:
        if "expr" in a:
            data(fill(a["expr"]), False)  # takeovers, if there were any
    for p in d["panels"]:
        if p["type"] != "row":
            panel(board, p)

if args.rules:
    names = set(api("label/__name__/values"))
    for group in api("rules")["groups"]:
        for r in group["rules"]:
            if r["health"] != "ok":
                failures.append(f"rule {r['name']}: {r.get('lastError')}")
            if r["type"] == "recording":
                if not data(r["query"], True) and r["name"] not in names:
                    failures.append(f"rule {r['name']}: no data: {r['query']}")
                continue
            # An alert's condition may have no data, but the series that it names must.
            data(r["query"], True)
            for name in re.findall(r"[a-z_:]*gvbll_[a-z0-9_:]+", r["query"]):
                if name not in names:
                    failures.append(f"alert {r['name']}: there is no {name}")
            firing = [a for a in r["alerts"] if a["state"] == "firing" and a["labels"].get("graph", args.graph) == args.graph]
            if firing:
                failures.append(f"alert {r['name']} fires without reason: {firing}")

if args.documented:
    text = open(args.documented).read()
    for name in api("label/__name__/values"):
        base = re.sub(r"_(bucket|sum|count)$", "", name)
        if name.startswith("gvbll_") and f"`{base}`" not in text and f"`{name}`" not in text:
            failures.append(f"{name} is not in {args.documented}")

for e in empty:
    print("no data,", e)
print(f"{args.graph}{', fresh' if args.fresh else ''}: {ran} queries, {len(failures)} failures")
if failures:
    sys.exit("\n".join(failures))
