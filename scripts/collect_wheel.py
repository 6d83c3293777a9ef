"""The wheel `dpproxy-collect`: what devices need of this repository, as a package of its own without dependencies.

usage: scripts/collect_wheel [FOLDER]          by default dist/; prints the wheel's path

Knows: two rooms, the form of wheels (PyPA's specification of binary distributions). Must not know: what the code does. The rooms
`dpproxy.collect` and `dpproxy.local` become `dpproxy_collect` and `dpproxy_collect.local`; imports between them become relative
ones, so that a program may have both packages. The same sources give the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
import re
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from dpproxy import __version__  # noqa: E402

NAME: Final = "dpproxy_collect"
ROOMS: Final = {"collect": NAME, "local": f"{NAME}/local"}
IMPORT: Final = re.compile(r"^(\s*)from dpproxy\.(collect|local)(\.[\w.]+)? import ", re.M)
MOMENT: Final = (1980, 1, 1, 0, 0, 0)
"""Of all files: zip knows none before."""

METADATA: Final = f"""Metadata-Version: 2.4
Name: dpproxy-collect
Version: {__version__}
Summary: Randomises on devices what they report to a dpproxy collector, and keeps count of what was told
License-Expression: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.11
Description-Content-Type: text/markdown

`dpproxy_collect.Device` keeps what happened on a device, draws some of it, randomises that by a pinned mechanism, and posts it
later. A ledger on the device bounds what is told a day and for ever. The standard library is all it needs.
"""
WHEEL: Final = "Wheel-Version: 1.0\nGenerator: dpproxy collect_wheel\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


def relative(source: str, room: str) -> str:
    """Return a file's text with relative imports. Raises ValueError where it imports anything else of dpproxy."""

    def spelled(found: re.Match[str]) -> str:
        indent, other, rest = found[1], found[2], found[3] or ""
        if other == room:
            return f"{indent}from .{rest.removeprefix('.')} import "
        return f"{indent}from .local{rest} import " if other == "local" else found[0]

    text = IMPORT.sub(spelled, source)
    if found := re.search(r"^\s*(from|import) dpproxy\b.*", text, re.M):
        raise ValueError(f"`{found[0].strip()}`: devices have `collect` and `local` alone")
    return text


def files() -> Iterator[tuple[str, bytes]]:
    """The wheel's files but its record."""
    for room, folder in ROOMS.items():
        for path in sorted((ROOT / "dpproxy" / room).glob("*.py")):
            yield f"{folder}/{path.name}", relative(path.read_text(), room).encode()
    yield f"{NAME}/py.typed", b""
    info = f"{NAME}-{__version__}.dist-info"
    yield f"{info}/METADATA", METADATA.encode()
    yield f"{info}/WHEEL", WHEEL.encode()
    yield f"{info}/licenses/LICENSE", (ROOT / "LICENSE").read_bytes()


def write(folder: Path) -> Path:
    """Write the wheel and return its path. Raises OSError, ValueError."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{NAME}-{__version__}-py3-none-any.whl"
    record = f"{NAME}-{__version__}.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in files():
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            lines.append(f"{name},sha256={digest},{len(content)}\n")
            wheel.writestr(_entry(name), content)
        wheel.writestr(_entry(record), "".join([*lines, f"{record},,\n"]))
    return target


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, MOMENT)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry


if __name__ == "__main__":
    print(write(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "dist"))
