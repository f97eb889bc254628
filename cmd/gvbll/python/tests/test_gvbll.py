"""Tests of the package as it is installed, with the program of its wheel. Run by .ci/python, with TEST_KAFKA on Apache Kafka too."""

import json
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import gvbll
from gvbll._program import arguments, program

NODES = 400


def payments() -> pd.DataFrame:
    """Payments of which a fifth are frauds, with gaps, texts, truth values and dates; a tenth have no label."""
    draw = np.random.default_rng(51)
    fraud = draw.random(NODES) < 0.2
    return pd.DataFrame(
        {
            "id": [f"p-{i}" for i in range(NODES)],
            "label": np.where(draw.random(NODES) < 0.1, None, np.where(fraud, "fraud", "ok")),
            "time": pd.date_range("2026-03-01T10:00:00.250Z", periods=NODES, freq="37min"),
            "amount": np.where(draw.random(NODES) < 0.05, np.nan, draw.lognormal(3 + fraud, 0.9)),
            "country": draw.choice(["DE", "FR", "a, \"b\"", None], NODES),
            "new": draw.random(NODES) < 0.5,
        }
    )


def links() -> pd.DataFrame:
    draw = np.random.default_rng(2)
    at = np.arange(1, NODES)
    return pd.DataFrame({"source": [f"p-{i}" for i in at], "target": [f"p-{draw.integers(i)}" for i in at]})


CUT = {"train_share": 0.3, "epochs": 8}


def command(*args: str) -> str:
    return subprocess.run([program(), *args], check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The payments as somebody writes them who uses the command line alone."""
    to = tmp_path_factory.mktemp("data") / "table"
    to.mkdir()
    lines = ["id,label,time,amount,country,new"]
    for p in payments().itertuples():
        amount = "" if np.isnan(p.amount) else repr(float(p.amount))
        country = {None: "", 'a, "b"': '"a, ""b"""'}.get(p.country, p.country)
        at = p.time.strftime("%Y-%m-%dT%H:%M:%S.250Z")
        lines.append(f"{p.id},{'' if p.label is None else p.label},{at},{amount},{country},{p.new}")
    (to / "nodes.csv").write_text("\n".join(lines) + "\n")
    (to / "edges.csv").write_text("source,target\n" + "".join(f"{e.source},{e.target}\n" for e in links().itertuples()))
    return to


@pytest.fixture(scope="module")
def demo():
    os.environ["GVBLL_BROKERS"] = "127.0.0.1:1"  # a demo has its own
    with gvbll.Demo(payments(), links(), progress=False, **CUT) as d:
        del os.environ["GVBLL_BROKERS"]
        yield d


def test_a_model_is_that_of_the_command_line_to_the_byte(folder, tmp_path):
    file = tmp_path / "cli.safetensors"
    command("train", "--data", str(folder), "--out", str(file), "--train-share", "0.3", "--epochs", "8")
    said = []
    tables = {
        "pandas": (payments(), links()),
        "with ids as the index": (payments().set_index("id"), links()),
        "pandas with pyarrow's types": (payments().convert_dtypes(dtype_backend="pyarrow"), links()),
        "pyarrow": (pa.Table.from_pandas(payments()), pa.Table.from_pandas(links())),
        "files": (folder / "nodes.csv", str(folder / "edges.csv")),
        "a folder": (folder, None),
    }
    for what, (nodes, edges) in tables.items():
        model = gvbll.train(nodes, edges, progress=said.append, **CUT)
        assert model.file.read_bytes() == file.read_bytes(), what
    assert model.classes == ["fraud", "ok"] and model.id in repr(model)
    assert any("training the model 100%" in line for line in said)
    assert model.inspect() == json.loads(command("inspect", str(file), "--json"))
    copy = model.save(tmp_path / "copy.safetensors")
    assert copy.id == model.id and gvbll.Model(copy.file).id == model.id


def test_parquet_files_are_read_as_they_are(tmp_path):
    table = payments().assign(time=payments()["time"].astype("int64") // 10**6, new=payments()["new"].map(str))
    pyarrow.parquet.write_table(pa.Table.from_pandas(table), tmp_path / "payments.parquet")
    table.to_csv(tmp_path / "payments.csv", index=False)
    a, b = (gvbll.train(tmp_path / f"payments.{e}", links(), progress=False, **CUT) for e in ("parquet", "csv"))
    assert a.id == b.id


def test_labels_and_classes_that_pandas_made_floats_of():
    nodes = pd.DataFrame({"label": [0, 1, None] * 40, "x": np.arange(120) % 3 + np.linspace(0, 1, 120)})
    model = gvbll.train(nodes, progress=False, epochs=2)
    assert model.classes == ["0", "1"]
    told = pd.DataFrame({"node": nodes.index, "class": nodes["label"]}).dropna()
    apart = gvbll.train(nodes[["x"]], labels=told, progress=False, epochs=2)
    assert apart.id == model.id


def test_vectors_in_a_column():
    draw = np.random.default_rng(1)
    x = draw.normal(size=(100, 1200))  # numpy prints as many with dots between
    nodes = pd.DataFrame({"label": np.where(x[:, 0] > 0, "a", "b"), "features": list(x)})
    assert gvbll.train(nodes, progress=False, epochs=1).inspect()["features"] == 1200


def test_errors_are_the_last_line_of_the_program(tmp_path):
    with pytest.raises(gvbll.Error, match=r"^unknown flag --epoch, did you mean|^unknown flag --epoch "):
        gvbll.train(payments(), links(), epoch=3, progress=False)
    out = tmp_path / "m.safetensors"
    gvbll.train(payments(), links(), out=out, progress=False, **CUT)
    with pytest.raises(gvbll.Error, match="it exists already: give another name, or --force"):
        gvbll.train(payments(), links(), out=out, progress=False, **CUT)
    gvbll.train(payments(), links(), out=out, progress=False, force=True, **CUT)
    with pytest.raises(gvbll.Error, match="want columns id and label"):
        gvbll.backtest(payments().drop(columns="label"), progress=False, boosting=False)
    with pytest.raises(ValueError, match="no such file"):
        gvbll.train(tmp_path / "none.csv")
    with pytest.raises(gvbll.Error, match="http://127.0.0.1:1: .*refused"):
        gvbll.decide("http://127.0.0.1:1", {"id": 1})


def test_flags():
    assert arguments({"train_until": pd.Timestamp("2026-03-01"), "key": ["a", "b"], "force": True, "eta": -1, "model": None}) == [
        "--train-until=2026-03-01T00:00:00", "--key=a", "--key=b", "--force", "--eta=-1",
    ]  # fmt: skip


def test_a_backtest_is_that_of_the_command_line_to_the_bit(folder, tmp_path):
    own = pd.DataFrame({"node": payments()["id"], "fraud": np.linspace(0, 1, NODES).round(3)})
    own.to_csv(tmp_path / "own", index=False)
    flags = {"steps": 6, "label_delay": "2d", "capacity": "5/d", **CUT}
    b = gvbll.backtest(payments(), links(), scores=own, boosting=True, progress=False, **flags)
    text = command("backtest", "--data", str(folder), "--scores", str(tmp_path / "own"), "--predictions", str(tmp_path / "p.csv"),
                   "--json", *arguments(flags))  # fmt: skip
    cli = json.loads(text)
    assert [s["name"] for s in b.report["systems"]] == ["gvbll", "majority", "logistic", "own", "boosting"]
    assert {**b.report, "systems": b.report["systems"][:4]} == cli
    lines = [x.split(",") for x in (tmp_path / "p.csv").read_text().splitlines()[1:]]
    mine = b.predictions[b.predictions["system"] != "boosting"]
    assert mine["node"].tolist() == [x[1] for x in lines]
    got = mine[["probabilities.fraud", "probabilities.ok"]].to_numpy()
    assert got.dtype == np.float32
    assert got.tobytes() == np.array([x[-2:] for x in lines], np.float32).tobytes()
    # A model that was trained with the same flags serves the same.
    model = gvbll.train(payments(), links(), progress=False, label_delay="2d", steps=6, **CUT)
    again = gvbll.backtest(payments(), links(), model=model, boosting=False, progress=False, steps=6, label_delay="2d", train_share=0.3)
    assert again.report["model"] == b.report["model"] == model.id
    of = lambda x: x.predictions[x.predictions["system"] == "gvbll"].reset_index(drop=True)
    pd.testing.assert_frame_equal(of(again), of(b))


def test_tables_of_a_backtest(tmp_path):
    b = gvbll.backtest(payments(), links(), boosting=True, progress=False, steps=6, **CUT)
    assert b.systems.loc["boosting", "auc"] > 0.6 > b.systems.loc["majority", "auc"]
    assert set(b.by_class.loc["gvbll"].index) == {"fraud", "ok"}
    assert len(b.over_time.loc["boosting"]) == 6 and b.over_time.loc["boosting", "labels"].sum() == b.report["labels"]
    marks = b.calibration()
    assert marks.loc["gvbll"]["count"].sum() == b.report["labels"]
    served = b.predictions[(b.predictions["system"] == "gvbll") & b.predictions["label"].notna()]
    p = served["probabilities.fraud"].astype(float)
    low = served[p < 0.05]
    m = marks.loc[("gvbll", 0.0)]
    assert (m["count"], m["share"]) == (len(low), (low["label"] == "fraud").mean()) and m["low"] <= m["probability"] <= m["high"]
    # Of more than two classes it is of the predicted one, and gives the program's ECE.
    three = payments().assign(label=lambda x: np.where(x["new"] & x["label"].notna(), "new", x["label"]))
    b3 = gvbll.backtest(three, links(), boosting=False, progress=False, steps=3, **CUT)
    m = b3.calibration().loc["gvbll"]
    ece = (m["count"] * (m["probability"] - m["share"]).abs()).sum() / m["count"].sum()
    assert ece == pytest.approx(b3.systems.loc["gvbll", "ece"], abs=1e-9)
    b.plot().savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert "gvbll: ECE" in b.picture._repr_svg_() and "<table" in b._repr_html_()


def test_boosting_sees_nothing_that_came_later(tmp_path):
    """The label is an attribute of the node itself, but of those of the last step, where it is turned round: who sees a label
    before it is told would be right there."""
    n, rows = 300, np.arange(300)
    y = rows // 2 % 2
    nodes = pd.DataFrame({"label": np.where(y == 1, "a", "b"), "time": rows, "x": np.where(rows < 250, y, 1 - y) + rows * 1e-9})
    b = gvbll.backtest(nodes, boosting=True, progress=False, train_until=200, steps=2, epochs=1)
    said = b.predictions[(b.predictions["system"] == "boosting") & (b.predictions["step"] == 2)]
    assert len(said) == 50 and ((said["probabilities.a"] > 0.5) == (said["label"] == "b")).all()


def test_without_matplotlib_the_program_draws(tmp_path, monkeypatch):
    b = gvbll.backtest(payments(), links(), boosting=False, progress=False, steps=3, **CUT)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    b.plot().savefig(tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text().startswith("<svg")


def test_from_torch_is_the_command_line_with_safetensors(tmp_path, folder):
    import safetensors.numpy

    dim = gvbll.train(payments(), links(), progress=False, **CUT).inspect()["features"]
    draw = np.random.default_rng(3)
    state = {}
    for layer, (into, out) in enumerate([(dim, 8), (8, 16)]):
        state[f"convs.{layer}.lin_l.weight"] = draw.normal(size=(out, into)).astype(np.float32)
        state[f"convs.{layer}.lin_l.bias"] = draw.normal(size=out)  # float64 is made float32
        state[f"convs.{layer}.lin_r.weight"] = draw.normal(size=(into, out)).astype(np.float32).T  # not contiguous

    class Tensor:  # as torch has it
        def __init__(self, x):
            self.x = x

        def detach(self):
            return self

        cpu = detach

        def numpy(self):
            return self.x

    model = gvbll.Model.from_torch({k: Tensor(v) for k, v in state.items()}, payments(), links(), progress=False, **CUT)
    same = {k: np.ascontiguousarray(v, np.float32) for k, v in state.items()}
    safetensors.numpy.save_file(same, tmp_path / "encoder.safetensors")
    file = tmp_path / "cli.safetensors"
    command("train", "--data", str(folder), "--weights", str(tmp_path / "encoder.safetensors"), "--out", str(file), *arguments(CUT))
    assert model.file.read_bytes() == file.read_bytes()


def equal_through_both(brokers: str, prefix: str) -> pd.DataFrame:
    """Returns predictions, which are those of `gvbll tail` to the bit, by both ways."""
    lines = command("tail", "--brokers", brokers, "--prefix", prefix, "--no-follow", "--json").splitlines()
    cli = sorted((json.loads(line) for line in lines), key=lambda p: (p["partition"], p["offset"]))
    both = [gvbll.predictions(brokers=brokers, prefix=prefix, through=t) for t in ("gvbll", "confluent")]
    pd.testing.assert_frame_equal(*both)
    p = both[0]
    assert p["node"].tolist() == [x["node"] for x in cli]
    for name in cli[0]["probabilities"]:
        want = np.array([x["probabilities"][name] for x in cli], np.float32)
        assert p["probabilities." + name].to_numpy().tobytes() == want.tobytes()
    return p


def test_predictions_are_those_of_tail_to_the_bit(demo):
    p = equal_through_both(demo.brokers, "gvbll")
    assert len(p) == demo.summary["predictions"] and p["published"].is_monotonic_increasing
    assert p["confidence"].dtype == np.float32 and p["time"].iloc[-1] == payments()["time"].iloc[-1]
    last = p["published"].iloc[-1] + pd.Timedelta("1ms")
    for through in ("gvbll", "confluent"):
        for since in (last, pd.Timestamp.now(tz="UTC") + pd.Timedelta("1h")):
            assert gvbll.predictions(brokers=demo.brokers, since=since, through=through).empty
        assert len(gvbll.predictions(brokers=demo.brokers, since="1d", through=through)) == len(p)
        with pytest.raises(gvbll.Error, match="topic other.predictions does not exist"):
            gvbll.predictions(brokers=demo.brokers, prefix="other", through=through)


def test_send(demo):
    new = payments().head(20).assign(id=lambda x: "new-" + x["id"], neighbours=[[f"p-{i}"] for i in range(20)])
    labels = new["label"].notna().sum()
    assert gvbll.send(new, brokers=demo.brokers) == 20 + labels
    more = {"edges": pd.DataFrame({"source": ["new-p-1"], "target": ["p-9"]}), "labels": pd.DataFrame({"node": ["p-3"], "class": ["ok"]})}
    assert gvbll.send(brokers=demo.brokers, **more) == 2
    for _ in range(600):
        got = gvbll.predictions(brokers=demo.brokers, key=new["id"].tolist())
        if len(got) == 20:
            break
        time.sleep(0.1)
    assert got["node"].tolist() == new["id"].tolist() and got["time"].tolist() == new["time"].tolist()
    assert command("dead-letters", "--brokers", demo.brokers, "--json") == ""


def test_decide(demo):
    """A worker of its own on the demo's broker answers, and says what it refuses."""
    model = gvbll.train(payments(), links(), progress=False, **CUT)
    command("topics", "--create", "--brokers", demo.brokers, "--prefix", "d")
    work = subprocess.Popen(
        [program(), "work", "--decide", "--http", "127.0.0.1:0", "--brokers", demo.brokers, "--prefix", "d", "--model", str(model.file)],
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        lines = iter(work.stderr.readline, "")
        url = next(part for line in lines for part in line.replace('"', " ").replace("=", " ").split() if part.startswith("http://"))
        node = {"id": "x", "features": {"amount": np.float64(12.5), "country": "DE"}}
        for _ in range(100):
            try:
                answer = gvbll.decide(url, node)
                break
            except gvbll.Error as e:  # it is starting
                assert str(e)[:3] in ("503", "504"), e
                time.sleep(0.2)
        assert answer["prediction"]["node"] == "x" and answer == gvbll.decide(url, node)
        assert equal_through_both(demo.brokers, "d")["offset"].tolist() == [answer["offset"]]
        with pytest.raises(gvbll.Error, match="^422: .*amount"):
            gvbll.decide(url, {"id": "y", "features": {"amount": "abc"}})
    finally:
        work.terminate()
        work.communicate()


@pytest.mark.skipif("TEST_KAFKA" not in os.environ, reason="needs Apache Kafka, as .ci/python has it")
def test_predictions_on_apache_kafka():
    assert len(equal_through_both(os.environ["TEST_KAFKA"], os.environ["TEST_KAFKA_PREFIX"])) > 500


def test_the_wheel(tmp_path):
    """Two builds are the same bytes, and files have their hashes."""
    here = Path(__file__).parent.parent
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "gvbll").write_bytes(b"program")
        (tmp_path / name / "LICENSE").write_text("Apache")
        os.utime(tmp_path / name / "gvbll", (made and 10**9 or 2 * 10**9,) * 2)
        run = [sys.executable, str(here / "wheel.py"), "1.2.3", "linux/arm64", str(tmp_path / name), str(tmp_path / name)]
        made.append(Path(subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()))
    assert made[0].name == made[1].name == "gvbll-1.2.3-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64.whl"
    assert made[0].read_bytes() == made[1].read_bytes()
    with zipfile.ZipFile(made[0]) as z:
        assert {"gvbll/__init__.py", "gvbll/py.typed", "gvbll/bin/gvbll"} <= set(z.namelist())
        assert z.getinfo("gvbll/bin/gvbll").external_attr >> 16 == 0o100755
