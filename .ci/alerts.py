#!/usr/bin/env python3
"""Checks whether the condition of an alert held for a graph on a live Prometheus
within the last half minute.

    alerts.py URL fires|silent ALERT GRAPH [FACTOR]

The durations in the condition are divided by FACTOR, so that a condition on hours can
hold after seconds.
"""

import json, re, sys, time, urllib.parse, urllib.request

url, want, alert, graph, factor = *sys.argv[1:5], int((sys.argv[5:] or ["1"])[0])
SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def api(path, **params):
    return json.load(urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(params)}"))["data"]


def shorter(m):
    return f"{m[1]}{max(int(m[2]) * SECONDS[m[3]] // factor, 1)}s"


rules = [r for g in api("rules", type="alert")["groups"] for r in g["rules"] if r["name"] == alert]
expr = re.sub(r"(\[|offset )(\d+)([smhd])", shorter, rules[0]["query"])
now = time.time()
result = api("query_range", query=expr, start=now - 30, end=now, step=1)["result"]
holds = any(s["metric"].get("graph") == graph for s in result)
print(f"{alert} of {graph}: {'fires' if holds else 'silent'}")
if holds != (want == "fires"):
    sys.exit(f"it should be {want}: {expr}")
