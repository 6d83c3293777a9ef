"""What every room's tests share: where the material outside the repository is.

`shared()` names the folder of the corpus, attacks and captured clients: `$DPPROXY_SHARED`, or `shared` beside the
repository. A clone elsewhere has none of it, and the tests that need it say so when they skip.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def shared() -> Path:
    """The shared material; skips the test, saying why, when it is absent."""
    named = os.environ.get("DPPROXY_SHARED")
    folder = Path(named) if named else ROOT.parent / "shared"
    if not (folder / "corpus").is_dir():
        pytest.skip(f"SHARED MATERIAL ABSENT: no corpus in {folder} (set DPPROXY_SHARED)")
    return folder


@pytest.fixture(name="shared", scope="session")
def shared_fixture() -> Path:
    return shared()
