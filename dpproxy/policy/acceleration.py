"""Whether there is a prepared copy of the private tables, as a policy says it: a word, or a mapping.

Knows: the keys of `policy_keys.ACCELERATE`, sizes. Must not know: how a copy is made, or used.
"""

from __future__ import annotations

import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Final, cast, get_args

from dpproxy.policy.model import Accelerate, AccelerateMode, Backend, DuckDBBackend, PostgresBackend
from dpproxy.policy.policy_keys import ACCELERATE
from dpproxy.policy.reader import Reader, kind
from dpproxy.policy.tree import Node, Scalar

_SIZE: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(?:([KMGT])(i?)B|bytes)\Z", re.IGNORECASE | re.ASCII)
_POWERS: Final = {"K": 1, "M": 2, "G": 3, "T": 4}


def read_accelerate(reader: Reader, node: Node | None, backend: Backend | None, base: Path) -> Accelerate:
    """Return what a policy says of copies. `base` is the folder for relative paths."""
    if node is None:
        return Accelerate()
    reader.positions["accelerate",] = node.at
    if isinstance(node, Scalar):
        return Accelerate(_mode(reader, node, backend))
    keys = reader.mapping(node, ACCELERATE)
    if not keys or "mode" not in keys:
        return Accelerate()
    folder = reader.text(keys["folder"], "folder") if "folder" in keys else None
    disk = _size(reader, keys["disk"]) if "disk" in keys else None
    mode, queries = _mode(reader, keys["mode"], backend), _queries(reader, keys["queries"]) if "queries" in keys else ()
    return Accelerate(mode, disk, os.path.abspath(base / folder) if folder else None, queries)


def _queries(reader: Reader, node: Node) -> tuple[str, ...]:
    texts = [reader.text(item, "query") for item in reader.items(node, "queries") or ()]
    return tuple(text for text in texts if text is not None)


def _mode(reader: Reader, node: Node, backend: Backend | None) -> AccelerateMode:
    mode = reader.choice(node, "`accelerate`", get_args(AccelerateMode))
    if mode == "on" and backend is not None and not isinstance(backend, DuckDBBackend):
        what, fix = "there are prepared copies of DuckDB files alone", "write `off`, or leave `accelerate` out"
        if isinstance(backend, PostgresBackend):
            fix = "write `extract`: the tables are read once for each epoch of the data, and DuckDB measures; or leave it out"
        reader.problem(node.at, what, fix, "backend")
    if mode == "extract" and backend is not None and not isinstance(backend, PostgresBackend):
        fix = "write `on`" if isinstance(backend, DuckDBBackend) else "leave `accelerate` out"
        reader.problem(node.at, "extracts are made of PostgreSQL databases alone", fix, "backend")
    return cast(AccelerateMode, mode or "auto")


def _size(reader: Reader, node: Node) -> int | None:
    """Bytes."""
    found = _SIZE.match(node.text) if isinstance(node, Scalar) else None
    if found is None:
        reader.problem(node.at, f"`disk` cannot be {kind(node)}", "write a size, as in 20GB", "wrong-type")
        return None
    unit = (1024 if found[3] else 1000) ** _POWERS[found[2].upper()] if found[2] else 1
    return int(Decimal(found[1]) * unit)
