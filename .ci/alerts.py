#!/usr/bin/env python3
"""Checks whether the condition of an alert held for a graph on a live Prometheus
within the last half minute.

    alerts.py URL fires|silent ALERT GRAPH
"""

import sys, time

from boards import Prometheus

url, want, alert, graph = sys.argv[1:]
prometheus, now = Prometheus(url), time.time()
expr = next(r["query"] for g in prometheus.api("rules", type="alert")["groups"] for r in g["rules"] if r["name"] == alert)
holds = any(s["metric"].get("graph") == graph for s in prometheus.range(expr, now - 30, now, 1))
print(f"{alert} of {graph}: {'fires' if holds else 'silent'}")
if holds != (want == "fires"):
    sys.exit(f"it should be {want}: {expr}")
