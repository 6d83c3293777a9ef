"""`python -m dpproxy` is the command `dpproxy`."""

from __future__ import annotations

import subprocess
import sys


def test_it_is_the_same_command() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "dpproxy", "serve", "--help"], capture_output=True, text=True, check=True, timeout=300
    )
    assert "Usage: python -m dpproxy serve" in said.stdout
