"""The operators' token: a file in the state folder that its owner alone can read.

Knows: one file. Must not know: who shows the token. It is drawn when it is first asked for; `renew` draws another, and whoever
is logged in by the old one is logged out with the next request. An operator may write one of their own there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

from dpproxy.console.access import AccessError, read_token

FILE: Final = "console.token"  # in the state folder


def token_of(state: Path) -> str:
    """Return the token of a state folder; it is drawn where there is none. Raises AccessError."""
    path = state / FILE
    if not path.exists():
        _write(path, replace=False)
    try:
        shared = path.stat().st_mode & 0o077
    except OSError as error:
        raise AccessError(f"the token file {path} cannot be read: {error.strerror}") from None
    if shared:
        raise AccessError(f"the token file {path} can be read by others: chmod 600 {path}")
    return read_token(path)


def renew(state: Path) -> str:
    """Draw another token. Raises AccessError."""
    _write(state / FILE, replace=True)
    return token_of(state)


def _write(path: Path, replace: bool) -> None:
    """Whole or not at all; of several that begin one at the same time, the first counts."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)  # mode 0600
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        if replace:
            os.replace(name, path)
            return
        with contextlib.suppress(FileExistsError):
            os.link(name, path)
        os.unlink(name)
    except OSError as error:
        raise AccessError(f"the token file {path} cannot be written: {error.strerror}") from None
