"""A secret that outlives the process: drawn once, kept in a file that only its owner reads.

Knows: files. Must not know: what the secret is for. Processes that begin together all get the one that was kept first.
"""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Final

from dpproxy.whole_file import write_whole

SIZE: Final = 32
"""Bytes."""


def lasting_secret(path: Path) -> bytes:
    """Read, or drawn and kept. A file of another length was cut short, and is made anew. Raises OSError."""
    for _ in range(2):
        try:
            found = path.read_bytes()
        except FileNotFoundError:
            found = b""
        if len(found) == SIZE:
            return found
        _keep(path, secrets.token_bytes(SIZE), anew=bool(found))
    return path.read_bytes()


def _keep(path: Path, secret: bytes, *, anew: bool) -> None:
    """The first of several wins."""
    write_whole(path, secret, replace=anew)
