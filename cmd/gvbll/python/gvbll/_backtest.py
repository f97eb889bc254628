"""Backtests: what would have been served on a table, beside rivals, scored before each label was learned."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ._model import Model
from ._program import Progress, run, tell
from ._tables import Table, frame, path_of, write

BOOSTING = "boosting"
"""The name of scikit-learn's HistGradientBoostingClassifier among the systems."""

class Picture:
    """An SVG that the program drew, which notebooks show."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def savefig(self, file: str | os.PathLike[str]) -> None:
        """Writes the picture, as SVG whatever the file's name."""
        Path(file).write_text(self.svg, encoding="utf-8")


class Backtest:
    """What a backtest found, see backtest()."""

    def __init__(self, report: dict[str, Any], predictions: pd.DataFrame, picture: Picture) -> None:
        self.report = report
        """What `gvbll backtest --json` prints (docs/schemas/backtest.json)."""
        self.predictions = predictions
        """What each system said of each node, before its label was learned: system, node, step, label (a gap for none), and
        probabilities.NAME for each class, float32 as served."""
        self.picture = picture
        """What `gvbll backtest --picture` draws."""

    @property
    def systems(self) -> pd.DataFrame:
        """Scores by system: acc, nll, ece with its chance level, brier, auc, ap, recall_at_1_percent; capacity's."""
        flat = [{k: v for k, v in s.items() if not isinstance(v, list)} for s in self.report["systems"]]
        return pd.json_normalize(flat).set_index("name")

    @property
    def by_class(self) -> pd.DataFrame:
        """Scores by system and class."""
        return self._parts("by_class").set_index(["system", "class"])

    @property
    def over_time(self) -> pd.DataFrame:
        """Scores by system in parts of the stream, at most ten."""
        return self._parts("over_time").set_index(["system", "from"])

    def _parts(self, name: str) -> pd.DataFrame:
        return pd.DataFrame([{"system": s["name"], **part} for s in self.report["systems"] for part in s[name]])

    def calibration(self, of: str | None = None) -> pd.DataFrame:
        """Returns how probabilities compare to what came, by system and bin of width 0.05: count, the mean probability, the
        share that was so, and low and high, where calibrated probabilities have 95 of 100 such shares.

        of: the class whose probability is meant; left out, the rarer of two, or of more the predicted one of each node."""
        of = of or self.report.get("ranked")
        scored = self.predictions[self.predictions["label"].notna()]
        scored = scored[scored.groupby("node")["system"].transform("size") == len(self.systems)]
        p, right = _of(scored, self.report["classes"], of)
        bins = np.clip(p * 20, 0, 19).astype(int)
        by = pd.DataFrame({"system": scored["system"].to_numpy(), "bin": bins / 20, "probability": p, "share": right})
        out = by.groupby(["system", "bin"], sort=True).agg(
            count=("share", "size"), probability=("probability", "mean"), share=("share", "mean")
        )
        off = 1.96 * np.sqrt(out["probability"] * (1 - out["probability"]) / out["count"])
        return out.assign(low=(out["probability"] - off).clip(0, 1), high=(out["probability"] + off).clip(0, 1))

    def plot(self, of: str | None = None) -> Any:
        """Draws calibration, and average precision and NLL over time, and returns the figure of matplotlib. Where that is not
        installed, returns picture, which has savefig(), too."""
        if importlib.util.find_spec("matplotlib") is None:
            return self.picture
        from matplotlib.figure import Figure

        class Shown(Figure):
            def _repr_png_(self) -> bytes:  # in notebooks, whether pyplot is imported or not
                self.savefig(file := io.BytesIO(), format="png", dpi=80)
                return file.getvalue()

        figure = Shown(figsize=(12, 4), layout="constrained")
        reliability, ap, nll = figure.subplots(1, 3)
        calibration, time = self.calibration(of), self.over_time
        for i, name in enumerate(self.systems.index):
            marks, parts, color = calibration.loc[name], time.loc[name], f"C{i}"
            if name not in ("majority", "logistic"):
                reliability.plot(marks["probability"], marks["share"], color=color, label=name)
                size = 200 * marks["count"] / marks["count"].sum()
                reliability.scatter(marks["probability"], marks["share"], size, color=color)
            for axes, score in ((ap, "ap"), (nll, "nll")):
                axes.plot(range(1, 1 + len(parts)), parts[score], color=color, label=name)
        bounds = calibration.loc["gvbll"]
        reliability.plot([0, 1], [0, 1], ":", color="gray")
        reliability.fill_between(bounds["probability"], bounds["low"], bounds["high"], color="#ddd", label="by chance")
        ranked = self.report.get("ranked", "")
        of = of or ranked or "the predicted class"
        reliability.set(xlabel=f"probability of {of}", ylabel="share that was so", title="calibration")
        ap.set(xlabel="part of the stream", title=f"average precision, {ranked or 'mean over classes'}")
        nll.set(xlabel="part of the stream", title="NLL, nats")
        for axes in (reliability, ap):
            axes.legend()
        return figure

    def _repr_html_(self) -> str:
        return str(self.systems.to_html(float_format="{:.4f}".format))

    def __repr__(self) -> str:
        return f"{self.report['labels']} labels of {self.report['stream']} nodes of {self.report['data']}\n{self.systems}"


def backtest(
    nodes: Table, edges: Table | None = None, labels: Table | None = None, *, dataset: Mapping[str, Any] | None = None,
    name: str = "table", model: Model | str | os.PathLike[str] | None = None, scores: pd.DataFrame | str |
    os.PathLike[str] | None = None, boosting: bool | None = None, progress: Progress = True, **flags: Any
) -> Backtest:
    """Says how a model would have done by `gvbll backtest`: trains on the earliest nodes, and plays the others as a stream,
    each scored as served before its label is learned.

    nodes, edges, labels, dataset, name: as in train().
    model: one of train() with the same tables and flags, in place of a training.
    scores: probabilities of your own, to stand beside: a column node, and one for each class; of two one is enough.
    boosting: beside scikit-learn's HistGradientBoostingClassifier, on what a node's own attributes, its neighbours' and their
        labels were when it came, refitted after each step that brought labels. Left out: if scikit-learn is installed.
    flags: those of the command: train_until="2026-03-01", label_delay="30d", steps=20, capacity="50/d", epochs=50."""
    if boosting is None:
        boosting = importlib.util.find_spec("sklearn") is not None
    with tempfile.TemporaryDirectory(prefix="gvbll-") as folder:
        at = Path(folder)
        flags["data"] = write(at, nodes, edges, labels, dataset, name)
        own: list[Any] = []
        if scores is not None:
            own = [path_of(scores) or at / "own"]
            if path_of(scores) is None:
                frame(scores).to_csv(own[0], index=False)
        if boosting:
            cut = ("data", "seed", "train_share", "train_until", "label_delay", "steps")
            run(["backtest"], {"rows": at / "rows.csv", **{k: v for k, v in flags.items() if k in cut}})
            own.append(at / BOOSTING)
            boosted(_read(at / "rows.csv"), progress).to_csv(own[-1], index=False)
        files = {"scores": own, "predictions": at / "predictions.csv", "picture": at / "picture.svg"}
        files["model"] = model.file if isinstance(model, Model) else model
        report = json.loads(run(["backtest"], {**files, "json": True, **flags}, progress))
        picture = Picture((at / "picture.svg").read_text(encoding="utf-8"))
        return Backtest(report, _read(at / "predictions.csv"), picture)


def _read(file: Path) -> pd.DataFrame:
    """Reads a table that the program wrote: float32 with their bits, and names as texts."""
    head = pd.read_csv(file, nrows=0).columns
    kinds = {c: "str" if c in ("system", "node", "label") else "Int64" if c in ("step", "due") else np.float32 for c in head}
    return pd.read_csv(file, dtype=kinds, keep_default_na=False, na_values={c: [""] for c in ("label", "due")})


def boosted(rows: pd.DataFrame, progress: Progress = False) -> pd.DataFrame:
    """Returns what HistGradientBoostingClassifier says of each node as it comes, refitted after steps that brought labels."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from threadpoolctl import threadpool_limits

    x = rows.drop(columns=["node", "step", "due", "label"]).to_numpy(np.float32)
    step, due = rows["step"].to_numpy(int), rows["due"].fillna(np.iinfo(np.int32).max).to_numpy(int)
    classes = [c.removeprefix("labels.") for c in rows.columns if c.startswith("labels.")]
    y = pd.Categorical(rows["label"], categories=classes).codes
    p, fitted, last = np.zeros((len(rows), len(classes))), None, step.max()
    with threadpool_limits(1 if len(rows) < 20_000 else None):  # more threads would wait for each other
        for now in range(last):
            known, at = (due <= now) & (y >= 0), step == now + 1
            seen = np.unique(y[known])
            if len(seen) > 1 and (fitted is None or (due[known] == now).any()):
                fitted = HistGradientBoostingClassifier(random_state=0).fit(x[known], y[known])
            if fitted is None:
                p[np.ix_(at, seen)] = 1 / max(len(seen), 1)
            elif at.any():
                p[np.ix_(at, fitted.classes_)] = fitted.predict_proba(x[at])
            if (now + 1) * 10 // last > now * 10 // last:
                tell(progress, f"{BOOSTING} {(now + 1) * 100 // last:3d}%")
    out = pd.concat([rows[["node"]], pd.DataFrame(p, columns=classes)], axis=1)
    return out[step > 0]


def _of(rows: pd.DataFrame, classes: list[str], of: str | None) -> tuple[np.ndarray, np.ndarray]:
    """Returns the probability of a class, or without one of the predicted class, and whether it was so."""
    p = rows[["probabilities." + c for c in classes]].to_numpy(np.float64)
    if of is not None:
        return p[:, classes.index(of)], (rows["label"] == of).to_numpy()
    return p.max(1), np.array(classes, object)[p.argmax(1)] == rows["label"].to_numpy()
