"""The program: where it is, and one run of it."""

from __future__ import annotations

import datetime
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Callable, Union

Progress = Union[bool, Callable[[str], Any]]
"""Where lines of progress go: a function, True for standard error, False for nowhere."""


class Error(Exception):
    """The program refused something or failed. The text is the last line that it printed: what, and what to do."""


def program() -> str:
    """Returns the program's path: of the wheel's own, or without one that on PATH."""
    own = Path(__file__).parent / "bin" / "gvbll"
    if own.exists():
        return str(own)
    found = shutil.which("gvbll")
    if found is None:
        raise Error("the program gvbll is not in this package, nor on PATH: install the wheel of your platform")
    return found


def arguments(flags: Mapping[str, Any]) -> list[str]:
    """Returns flags of the command line: `train_until="2026-03-01"` is --train-until=2026-03-01, a list is a flag for each
    item, True a flag without a value, and None is left out."""
    out = []
    for name, value in flags.items():
        flag = "--" + name.strip("_").replace("_", "-")
        for item in value if isinstance(value, (list, tuple)) else [value]:
            if item is True:
                out.append(flag)
            elif isinstance(item, (datetime.date, datetime.datetime)):
                out.append(f"{flag}={item.isoformat()}")
            elif item is not None:
                out.append(f"{flag}={str(item).lower() if item is False else item}")
    return out


def tell(progress: Progress, line: str) -> None:
    """Shows a line of progress."""
    if callable(progress):
        progress(line)
    elif progress:
        print(line, file=sys.stderr, flush=True)


class Run:
    """The program as it runs, in the environment without some variables. Lines of standard error go to progress."""

    def __init__(self, command: Sequence[str], progress: Progress, out: Any = subprocess.PIPE, without: Sequence[str] = ()) -> None:
        self.process = subprocess.Popen(
            [program(), *command], stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE, text=True, encoding="utf-8",
            env={k: v for k, v in os.environ.items() if k not in without},
        )  # fmt: skip
        self.last = ""
        self._progress = progress
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.last = line.rstrip() or self.last
            tell(self._progress, line.rstrip())

    def text(self) -> str:
        """Waits for the end, and returns what was printed to standard output. Raises Error for a failure."""
        try:
            out = self.process.stdout.read() if self.process.stdout else ""
            self.process.wait()
        except BaseException:
            self.stop()
            raise
        self._reader.join()
        if self.process.returncode != 0:
            raise Error(self.last.removeprefix("gvbll: ") or f"the program ended with {self.process.returncode}")
        return out

    def stop(self) -> None:
        """Ends the program as Ctrl-C does."""
        if self.process.poll() is None:
            self.process.terminate()
        self.process.wait()


def run(command: Sequence[str], flags: Mapping[str, Any], progress: Progress = False) -> str:
    """Runs a command with flags, and returns what it printed."""
    return Run([*command, *arguments(flags)], progress).text()
