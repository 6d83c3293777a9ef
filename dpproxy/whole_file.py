"""A small file that is there whole or not at all, and that its owner alone reads.

Knows: files. Must not know: what they hold. It is written beside its place, under a name that begins with a dot, and is on the
disk before it takes the place; where that fails nothing of it is left.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes, *, replace: bool) -> None:
    """Write a file (mode 0600). Without `replace` what is there stays: of several that begin together, the first counts. Raises
    OSError."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if replace:
            os.replace(name, path)
            return
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
    except OSError:
        os.unlink(name)
        raise
    os.unlink(name)
