"""A graph in Kafka: sending, reading, asking, and one that runs here to try it."""

from __future__ import annotations

import importlib.util
import json
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ._model import Model
from ._program import Error, Progress, Run, arguments, run, tell
from ._tables import Table, events, write

SINGLE = ["confidence", "total_uncertainty", "aleatoric_uncertainty", "epistemic_uncertainty", "asked", "coverage"]
"""Fields that are float32 in the topic. Columns of them are, too, so that they hold its bits."""


def send(
    nodes: Table | None = None, *, edges: Table | None = None, labels: Table | None = None, brokers: str, prefix: str =
    "gvbll", model: Model | None = None, progress: Progress = False, **flags: Any
) -> int:
    """Sends events by `gvbll send --events`, in the order of the rows, and returns how many.

    nodes: columns as an event has them (id, time, neighbours, context, departed, predict), and one for each attribute. A
        column label is sent as labels, after the nodes. Ids are sent as they are: "7" and 7 are different nodes.
    edges: columns source, target; optionally kind, weight, remove, time.
    labels: columns node and class; optionally time.
    model: that of the workers. One without a schema takes features as a list in the order of the columns; without model,
        and for all others, they go by name.
    flags: those of the command: create_topics=1, rate=100, cell_by="tenant", tls_ca="ca.pem"."""
    vector = model is not None and "schema" not in model.inspect()
    lines = [json.dumps(e) + "\n" for e in events(nodes, edges, labels, vector)]
    with tempfile.TemporaryDirectory(prefix="gvbll-") as folder:
        file = Path(folder) / "events.jsonl"
        file.write_text("".join(lines), encoding="utf-8")
        run(["send"], {"events": file, "brokers": brokers, "prefix": prefix, **flags}, progress)
    return len(lines)


def predictions(
    *, brokers: str, prefix: str = "gvbll", since: Any = None, through: str | None = None, config: Mapping[str, Any] |
    None = None, **flags: Any
) -> pd.DataFrame:
    """Returns the committed predictions up to the topic's present end, in the order of publication of each partition.

    A column for each field of a prediction (docs/wire-format.md): node, class, confidence …; probabilities.NAME for each
    class, float32 with the bits of the topic; published, time; partition and offset.

    since: a span such as "1h", or a time: leaves out what was published before.
    through: "confluent" reads by confluent-kafka and msgpack, "gvbll" by `gvbll tail`. Left out, the first if both are
        installed and no flags are given. What comes is equal.
    config: more settings of confluent-kafka, such as those of its security.
    flags: those of `gvbll tail`: key=["paper-7"], tls_ca="ca.pem"."""
    if through is None:
        there = all(importlib.util.find_spec(m) is not None for m in ("confluent_kafka", "msgpack"))
        through = "confluent" if there and not flags else "gvbll"
    begin = None if since is None else _moment(since)
    if through == "confluent":
        found = _consumed(brokers, prefix, begin, config or {})
    else:
        given = {"brokers": brokers, "prefix": prefix, "since": begin, "json": True, "no_follow": True, **flags}
        found = [json.loads(line) for line in run(["tail"], given).splitlines()]
    found.sort(key=lambda p: (p["partition"], p["offset"]))
    return table_of(found)


def table_of(found: list[dict[str, Any]]) -> pd.DataFrame:
    """Returns predictions in JSON as a data frame."""
    classes = dict.fromkeys(name for p in found for name in p["probabilities"])
    columns: dict[str, Any] = {}
    for name in dict.fromkeys(k for p in found for k in p if k != "probabilities"):
        columns[name] = pd.Series([p.get(name) for p in found], dtype=np.float32 if name in SINGLE else None)
    for name in classes:
        columns["probabilities." + name] = np.array([p["probabilities"].get(name, np.nan) for p in found], np.float32)
    out = pd.DataFrame(columns, columns=None if found else ["node", "class", "confidence", "published"])
    for name in ("time", "published"):
        if name in out:
            out[name] = pd.to_datetime(out[name].replace(0, None), unit="ms", utc=True)
    return out


def _consumed(brokers: str, prefix: str, since: pd.Timestamp | None, config: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns predictions as `gvbll tail --json` prints them. Those in msgpack have no names of classes: the ledger has."""
    import confluent_kafka as ck
    import msgpack

    consumer = ck.Consumer(
        {"bootstrap.servers": brokers, "group.id": "gvbll-python", "enable.auto.commit": False, "log_level": 4}
        | {**config, "isolation.level": "read_committed", "enable.partition.eof": True}
    )

    def read(topic: str, begin: int | None) -> Iterator[Any]:
        topics = consumer.list_topics(topic, timeout=30).topics
        if topics[topic].error is not None:
            raise Error(f"topic {topic} does not exist: check prefix, or run 'gvbll topics --create'")
        at = [ck.TopicPartition(topic, p, ck.OFFSET_BEGINNING if begin is None else begin) for p in topics[topic].partitions]
        at = at if begin is None else consumer.offsets_for_times(at, timeout=30)
        consumer.assign(at)
        left = len(at)
        while left > 0:
            message = consumer.poll(30)
            if message is None:
                raise Error(f"{brokers} did not answer for 30 seconds")
            error = message.error()
            if error is None:
                yield message
            elif error.code() == ck.KafkaError._PARTITION_EOF:
                left -= 1
            elif not error.retriable():
                raise Error(str(error))

    found, names = [], {}
    try:
        for m in read(prefix + ".predictions", None if since is None else int(since.timestamp() * 1000)):
            value = m.value()
            p = json.loads(value) if value[:1] == b"{" else msgpack.unpackb(value)
            found.append(p | {"partition": m.partition(), "offset": m.offset(), "published": m.timestamp()[1]})
        if any(isinstance(p["probabilities"], list) for p in found):
            for m in read(prefix + ".ledger", None):
                r = json.loads(m.value())
                if "classes" in r:
                    names[r["model"] if "begins" in r else r["promoted"]] = r["classes"]
    finally:
        consumer.close()
    for p in found:
        if isinstance(p["probabilities"], list):
            of = names.get(p["model"], [])
            p["probabilities"] = {of[i] if i < len(of) else f"#{i}": x for i, x in enumerate(p["probabilities"])}
    return found


def _moment(since: Any) -> pd.Timestamp:
    """Returns when a span ago was, or a time."""
    try:
        return pd.Timestamp.now(tz="UTC") - pd.Timedelta(since.replace("d", "D") if isinstance(since, str) else since)
    except (ValueError, TypeError):
        at = pd.Timestamp(since)
    return at.tz_localize("UTC") if at.tzinfo is None else at


def decide(url: str, event: Mapping[str, Any], *, wait: str = "5s") -> dict[str, Any]:
    """Asks a worker that runs with --decide, at its address such as http://localhost:8473: sends an event into the stream,
    and returns {"prediction", "topic", "partition", "offset"} once it is committed. Raises Error with the detail of a
    refusal. The same call within ten minutes has the same answer: call again where there was none. Passwords and
    certificates are those that urllib.request.install_opener() has."""
    body = json.dumps(dict(event), default=lambda x: x.item()).encode()
    to = f"{url.rstrip('/')}/v1/decide?wait={urllib.parse.quote(wait)}"
    try:
        with urllib.request.urlopen(urllib.request.Request(to, body, {"Content-Type": "application/json"}), timeout=60) as answer:
            out: dict[str, Any] = json.load(answer)
            return out
    except urllib.error.HTTPError as e:
        problem = json.loads(e.read() or b"{}")
        raise Error(f"{e.code}: {problem.get('detail') or problem.get('title') or e.reason}") from None
    except urllib.error.URLError as e:
        raise Error(f"{url}: {e.reason}") from None


class Demo:
    """A model, a broker and a worker here, by `gvbll demo --keep`: plays the stream of a data set, and then serves what send()
    sends until close(), or the end of a with.

    nodes, edges, labels, dataset, name: as in train(). flags: those of the command, such as train_share=0.2, epochs=50."""

    def __init__(
        self, nodes: Table, edges: Table | None = None, labels: Table | None = None, *, dataset: Mapping[str, Any] |
        None = None, name: str = "table", progress: Progress = True, **flags: Any
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="gvbll-")
        data = write(Path(self._folder.name), nodes, edges, labels, dataset, name)
        said: list[str] = []

        def line(text: str) -> None:
            tell(progress, text)
            said.append(text)

        with open(Path(self._folder.name) / "summary.json", "w+") as out:
            command = ["demo", *arguments({"data": data, "keep": True, "fast": True, "json": True, **flags})]
            self._run = Run(command, line, out, without=("GVBLL_BROKERS", "GVBLL_PREFIX", "GVBLL_CONFIG"))
            try:
                while not any(text.startswith("Serving until") for text in said):
                    if self._run.process.poll() is not None:
                        self._run.text()
                    time.sleep(0.02)
            except BaseException:
                self.close()
                raise
            out.seek(0)
            self.summary: dict[str, Any] = json.load(out)
            """What `gvbll demo --json` prints: scores of what was served, and of the model as trained."""
        found = {words[0]: words for text in said if (words := text.split())}
        self.brokers = found["follow"][found["follow"].index("--brokers") + 1]
        """The address of the embedded broker, for send() and predictions()."""
        self.url = found["live"][2]
        """The live page, and the API."""

    def close(self) -> None:
        """Ends broker and worker. The stream is gone."""
        self._run.stop()
        self._folder.cleanup()

    def __enter__(self) -> Demo:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
