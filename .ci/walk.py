"""Run by .ci/walk in an empty folder: the commands of the documentation, as written.

A command is a line of a block that is indented by four spaces, with the lines that
continue it. Those that serve or follow go on in the background until the next of their
kind; every other one must end with exit code 0."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

repo, broker = Path(sys.argv[1]), sys.argv[2]

# The pages in the order of a first evening.
PAGES = ["README.md", "docs/wire-format.md", "docs/runbook.md", "docs/forgetting.md", "docs/hostile-input.md", "docs/recipes.md", "docs/transactions.md"]

# What is not run here, and why.
SKIP = [
    (r"^go (run|test) ", "other stages of CI run it"),
    (r"kafka-configs\.sh|…", "an outline, with names to fill in"),
    (r"--event-time|--rescore", "another way to start the worker that runs already"),
    (r"--like payments|--data payments --out|payments/events\.jsonl", "TestPaymentsRecipe runs it"),
    (r"forget paper-7 42", "a second node, which this graph does not have"),
]

# Shorter trainings, demos that are not watched, and one seed. Every flag can come from the environment.
os.environ.update(GVBLL_EPOCHS="5", GVBLL_FAST="true", GVBLL_HTTP="127.0.0.1:0", GVBLL_LINGER="20ms")

# The program that measures, whose lines presume a checkout, has flags of its own.
LAB = "env -u GVBLL_LINGER -u GVBLL_HTTP -u GVBLL_FAST GVBLL_SEEDS=1 lab "

# Demos have a broker of their own.
DEMO = "env -u GVBLL_BROKERS gvbll demo "

COMMAND = re.compile(r"^(gvbll|go|echo|printf|kcat|sed|curl|python3|kafka-\S+) ")
SERVES = re.compile(r"^gvbll work ")
LOOKS = re.compile(r"\| grep ")  # for what the command before it brings about in a while
FOLLOWS = re.compile(r"^gvbll tail(?!.*(-n|--no-follow))")


def commands(page):
    """Yields the commands of a page, after writing its programs whose first line names a file."""
    text = (repo / page).read_text()
    for program, name in re.findall(r"^```python\n(# (\w+\.py): .*?)^```$", text, re.M | re.S):
        Path(name).write_text(program)
    lines = iter(text.splitlines())
    for line in lines:
        text = line.removeprefix("    ")
        if text == line or not COMMAND.match(text):
            continue
        while re.search(r"[|\\]\s*$", text):
            text = text.removesuffix("\\") + next(lines).strip()
        yield text.replace("localhost:9092", broker).replace("go run ./cmd/lab ", LAB).replace("gvbll demo ", DEMO)


def shell(command, check=True):
    r = subprocess.run(["bash", "-euo", "pipefail", "-c", command], capture_output=True, text=True, timeout=300)
    if check and r.returncode != 0:
        sys.exit(f"exit code {r.returncode}: {command}\n{r.stdout[-2000:]}{r.stderr[-2000:]}")
    return r


class Background:
    """A command that goes on until it is replaced."""

    def __init__(self, command):
        self.log = open(f"background-{time.time_ns()}.log", "w+")
        self.command = command.split(" #")[0]
        self.process = subprocess.Popen(["bash", "-c", "exec " + self.command], stdout=self.log, stderr=subprocess.STDOUT)

    def text(self):
        return Path(self.log.name).read_text()

    def until(self, pattern):
        deadline = time.monotonic() + 120
        while not re.search(pattern, self.text()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"no {pattern!r}: {self.command}\n{self.text()[-2000:]}")
            time.sleep(0.1)

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        if code := self.process.wait(60):
            sys.exit(f"exit code {code}: {self.command}\n{self.text()[-2000:]}")


def prepare():
    """Makes what the pages presume: data sets, and the model of a later day."""
    for name, drift in ("cora", "strong"), ("texas", "moderate"), ("newer", "abrupt"):
        shell(f"{LAB}generate --nodes 600 --classes 3 --late 0 --dim 8 --steps 4 --drift {drift} --out path/to/{name}")
    shell(f"{LAB}generate --like payments --nodes 1000 --one-in 20 --out path/to/payments")
    shell("gvbll train --data path/to/newer --out other.safetensors")


def main():
    prepare()
    workers = {}
    for page in PAGES:
        if page == "docs/hostile-input.md":
            # A producer that calls its JSON msgpack, as the page presumes.
            shell("""echo '{"id": "late-1", "indices": [1, 2]}' | kcat -P -b """ + broker + " -t gvbll.nodes -H content-type=application/msgpack")
            eventually("gvbll dead-letters", "late-1|undecodable")
        for command in commands(page):
            if why := next((why for pattern, why in SKIP if re.search(pattern, command)), None):
                print(f"{page}: not run ({why}): {command}", flush=True)
                continue
            print(f"{page}: {command}", flush=True)
            if SERVES.match(command):
                # Of each graph, one worker at a time.
                graph = "trial" if "--prefix trial" in command else "gvbll"
                if graph in workers:
                    workers[graph].stop()
                if "old.safetensors" in command:
                    shell("cp model.safetensors old.safetensors")
                workers[graph] = Background(command)
                workers[graph].until("serving: this worker owns")
            elif FOLLOWS.match(command):
                follower = Background(command)
                follower.until(r"\n\S+ +\S+ +0\.\d+")
                follower.stop()
            elif LOOKS.search(command):
                eventually(command, r"\S")
            else:
                shell(command)
        check(page)
    for worker in workers.values():
        worker.stop()
    print("walked")


def eventually(command, pattern):
    """Waits until a command prints what matches the pattern."""
    deadline = time.monotonic() + 30
    while not re.search(pattern, out := shell(command, check=False).stdout):
        if time.monotonic() > deadline:
            state = shell("gvbll status; gvbll dead-letters; gvbll ledger | tail -3", check=False)
            sys.exit(f"no {pattern!r}: {command}\n{out[-2000:]}{state.stdout[-3000:]}{state.stderr}")
        time.sleep(0.5)


def check(page):
    """Checks what a page's commands came to."""
    if page == "README.md":
        eventually("gvbll tail --no-follow --json", '"node":"paper-7"')
        eventually(f"{repo}/.ci/kafka-broker consume {broker} gvbll.predictions $(gvbll tail --no-follow --json | wc -l)", "paper-7")  # Java's console consumer
        if refused := shell("gvbll dead-letters --json").stdout:
            sys.exit(f"refused: {refused}")
    if page == "docs/recipes.md":  # what kcat reads is what tail shows
        read = shell(f"kcat -C -e -q -b {broker} -t trial.predictions -X isolation.level=read_committed -f '%h %s\\n'").stdout.splitlines()
        shown = shell("gvbll tail --prefix trial --no-follow --json").stdout.splitlines()
        shown = [re.sub(r',"partition":\d+,"offset":\d+,"published":\d+}$', "}", line) for line in shown]
        if not shown or sorted(read) != sorted("content-type=application/json " + line for line in shown):
            sys.exit(f"kcat reads {read[:3]} …, and tail shows {shown[:3]} …")
    if page == "docs/runbook.md" and not Path("report.html").read_text().startswith("<!doctype html>"):
        sys.exit("report.html is no page")
    if page == "docs/hostile-input.md":
        eventually("gvbll tail --no-follow --json", '"node":"late-1"')
        eventually("gvbll dead-letters", "undecodable.*sent again")


main()
