#!/usr/bin/env python3
"""Checks the condition of an alert for a graph on a live Prometheus.

    alerts.py URL fires|silent ALERT GRAPH [FACTOR]

fires: it held within the last half minute.
silent: it does not hold now. Rules wait for minutes before they fire, so that a moment
at the beginning, when an increase is estimated from two samples, fires none of them.

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
start = now - 30 if want == "fires" else now
result = api("query_range", query=expr, start=start, end=now, step=1)["result"]
holds = any(s["metric"].get("graph") == graph for s in result)
print(f"{alert} of {graph}: {'fires' if holds else 'silent'}")
if holds != (want == "fires"):
    sys.exit(f"it should be {want}: {expr}")
