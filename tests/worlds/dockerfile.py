"""The Dockerfile as steps, and what of the repository is sent to whoever builds it."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def instructions() -> list[tuple[str, str]]:
    """(instruction, arguments), continued lines joined."""
    text = re.sub(r"\\\n", " ", (ROOT / "docker" / "Dockerfile").read_text())
    lines = (line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#"))
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in lines)]


def sent() -> list[str]:
    """`.dockerignore` leaves out everything but this."""
    return [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
