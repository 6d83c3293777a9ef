"""A secret that outlives the process: drawn once, kept in a file that only its owner reads.

Knows: files. Must not know: what the secret is for. Processes that begin together all get the one that was kept first.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

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
    """Whole or not at all; the first of several wins."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # mode 0600
    with os.fdopen(handle, "wb") as file:
        file.write(secret)
        file.flush()
        os.fsync(file.fileno())
    if not anew:
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
        os.unlink(name)
    else:
        os.replace(name, path)
