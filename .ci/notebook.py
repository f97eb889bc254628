#!/usr/bin/env python3
"""Runs docs/notebook.ipynb, and compares what its cells show with what the file has: pictures and cells tagged "varies" aside,
and lines of boosting, which is not ours.

notebook.py           fails for an error, and for a difference
notebook.py --write   writes outputs into the notebook, and its picture into docs/pictures. Needs nbclient and ipykernel"""

import base64
import sys
import tempfile
from pathlib import Path

import nbformat
from nbclient import NotebookClient

NOTEBOOK, PICTURE = (Path(__file__).resolve().parent.parent / "docs" / name for name in ("notebook.ipynb", "pictures/backtest.png"))


def shown(cell):
    """Returns the lines of text of a cell that are the same in each run."""
    if cell.cell_type != "code" or "varies" in cell.metadata.get("tags", []):
        return []
    texts = [o.get("text", "") or o.get("data", {}).get("text/plain", "") for o in cell.outputs if "image/png" not in o.get("data", {})]
    return [line for text in texts for line in text.splitlines() if not line.startswith("boosting")]


notebook = nbformat.read(NOTEBOOK, as_version=4)
want = [shown(cell) for cell in notebook.cells]
with tempfile.TemporaryDirectory() as folder:
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": folder}}).execute()
if "--write" in sys.argv[1:]:
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                PICTURE.write_bytes(base64.b64decode(output.data["image/png"]))
    notebook.metadata.language_info = {"name": "python"}
    nbformat.write(notebook, NOTEBOOK)
    sys.exit()
for cell, had in zip(notebook.cells, want):
    if (got := shown(cell)) != had:
        sys.exit(f"docs/notebook.ipynb does not have what this cell shows (.ci/notebook.py --write):\n{cell.source}\n" + "\n".join(got))
print(f"docs/notebook.ipynb shows what its {len(want)} cells do")
