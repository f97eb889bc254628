"""Dashboards as Grafana shows them: their queries on a Prometheus, and what a panel of
one number shows for their results, from the mappings and thresholds in the JSON."""

import json, math, urllib.error, urllib.parse, urllib.request

CLUSTER = "compose"
BEFORE = "the hour before"  # the name of what was true then


class Prometheus:
    def __init__(self, url):
        self.url, self.ran = url, 0

    def api(self, path, **params):
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(params)}"
        try:
            return json.load(urllib.request.urlopen(url))["data"]
        except urllib.error.HTTPError as e:
            raise RuntimeError(json.load(e)["error"])

    def instant(self, expr):
        """Returns the labels and the value of each series, NaN left out."""
        self.ran += 1
        result = [(s["metric"], float(s["value"][1])) for s in self.api("query", query=expr)["result"]]
        return [(m, v) for m, v in result if not math.isnan(v)]

    def range(self, expr, start, end, step):
        self.ran += 1
        return self.api("query_range", query=expr, start=start, end=end, step=step)["result"]


def fill(expr, graph):
    """Fills in the variables of a dashboard, as they are with one graph chosen."""
    expr = expr.replace('="$class"', '=~".+"')  # all classes as one
    for name, value in {"$__rate_interval": "15s", "$__range": "10m", "$clusters": CLUSTER, "$cluster": CLUSTER, "$graph": graph, "$instance": ".*"}.items():
        expr = expr.replace(name, value)
    return expr


def display(panel, value, ref=None, field=None):
    """Returns the text and the colour of a value, None for no data, as Grafana's display
    processor does: the first mapping that matches, else a fixed colour, else the last
    threshold that the value reaches. Overrides are by query or by name of the field."""
    d = panel["fieldConfig"]["defaults"]
    config = {k: d.get(k) for k in ("mappings", "thresholds", "color", "noValue")}
    for o in panel["fieldConfig"]["overrides"]:
        if o["matcher"]["options"] == {"byFrameRefID": ref, "byName": field}.get(o["matcher"]["id"]):
            config.update({p["id"]: p["value"] for p in o["properties"]})
    for m in config["mappings"] or []:
        options = m["options"]
        result = None
        if m["type"] == "value":
            result = None if value is None else options.get(f"{value:g}")
        elif m["type"] == "special" and options["match"] == "null+nan":
            result = options["result"] if value is None else None
        elif m["type"] == "range" and value is not None:
            low, high = options["from"], options["to"]
            result = options["result"] if (low is None or value >= low) and (high is None or value <= high) else None
        if result:
            return result.get("text", value), result.get("color") or scale(config, value)
    return (config["noValue"] or "No data" if value is None else value), scale(config, value)


def scale(config, value):
    if config["color"] and config["color"]["mode"] == "fixed":
        return config["color"]["fixedColor"]
    colour = None
    for s in (config["thresholds"] or {"steps": []})["steps"]:  # the first has no value: it is the colour of no data
        if s["value"] is None or value is not None and value >= s["value"]:
            colour = s["color"]
    return colour


def look(prometheus, panel, graph):
    """Returns what a panel of single numbers shows for now: a text and a colour for each."""
    shown = []
    for t in panel["targets"]:
        if t["legendFormat"] == BEFORE:
            continue
        for _, value in prometheus.instant(fill(t["expr"], graph)):
            shown.append(display(panel, value, t["refId"]))
    return shown or [display(panel, None)]


def read(paths):
    """Returns the dashboards by file name, with the panels of their collapsed rows among
    the others."""
    boards = {path.rsplit("/", 1)[-1]: json.load(open(path)) for path in paths}
    for board in boards.values():
        board["panels"] = [p for one in board["panels"] for p in (one, *one.get("panels", []))]
    return boards
