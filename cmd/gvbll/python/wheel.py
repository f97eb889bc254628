#!/usr/bin/env python3
"""Builds the wheel of the package gvbll for a platform, around its program: the same files give the same bytes.

    python3 wheel.py VERSION linux/amd64 DIR OUT

DIR has the program and what comes with it: gvbll, LICENSE and, if they are there, THIRD-PARTY-LICENSES and sbom.cdx.json.
OUT is the folder that the wheel is written into. Prints its path."""

import base64
import hashlib
import re
import sys
import zipfile
from pathlib import Path

# The program is static: it needs no libc. Go 1.26 needs macOS 12.
TAGS = {
    "linux/amd64": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "linux/arm64": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "darwin/amd64": "macosx_12_0_x86_64",
    "darwin/arm64": "macosx_12_0_arm64",
}
METADATA = """\
Metadata-Version: 2.4
Name: gvbll
Version: {version}
Summary: Classifies the nodes of a growing graph as they arrive, with calibrated probabilities, from pandas
Project-URL: Source, https://github.com/gvbll/gvbll
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.9
Requires-Dist: pandas>=1.5
Provides-Extra: plot
Requires-Dist: matplotlib; extra == "plot"
Provides-Extra: boosting
Requires-Dist: scikit-learn>=1.2; extra == "boosting"
Provides-Extra: kafka
Requires-Dist: confluent-kafka; extra == "kafka"
Requires-Dist: msgpack; extra == "kafka"
Description-Content-Type: text/markdown

"""


def wheel(version: str, platform: str, program: Path, out: Path) -> Path:
    """Writes the wheel, and returns its path."""
    if not re.fullmatch(r"\d+(\.\d+)*((a|b|rc)\d+)?(\.dev\d+)?", version):  # else PEP 440 has no such version
        version = "0+" + (re.sub(r"[^a-z0-9]+", ".", version.lower()).strip(".") or "unknown")
    tags, info, here = TAGS[platform], f"gvbll-{version}.dist-info", Path(__file__).parent
    files = {f"gvbll/{f.name}": f.read_bytes() for f in sorted((here / "gvbll").iterdir()) if f.suffix in (".py", ".typed")}
    files["gvbll/bin/gvbll"] = (program / "gvbll").read_bytes()
    for name, folder in {"LICENSE": "licenses", "THIRD-PARTY-LICENSES": "licenses", "sbom.cdx.json": "sboms"}.items():
        if (program / name).exists():
            files[f"{info}/{folder}/{name}"] = (program / name).read_bytes()
    files[f"{info}/METADATA"] = (METADATA.format(version=version) + (here / "README.md").read_text()).encode()
    of = "".join(f"Tag: py3-none-{t}\n" for t in tags.split("."))
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: gvbll\nRoot-Is-Purelib: false\n{of}".encode()
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\ngvbll = gvbll.__main__:main\n"
    record = ""
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(data)}\n"
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    to = out / f"gvbll-{version}-py3-none-{tags}.whl"
    with zipfile.ZipFile(to, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as z:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.create_system = zipfile.ZIP_DEFLATED, 3
            entry.external_attr = (0o100755 if name == "gvbll/bin/gvbll" else 0o100644) << 16
            z.writestr(entry, data)
    return to


if __name__ == "__main__":
    print(wheel(sys.argv[1], sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4])))
