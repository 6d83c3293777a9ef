"""Writes the pages of the documents that are made from the code, in docs/reference: command line, tables, errors, log, metrics.

usage: scripts/reference

Knows: which page is made of what. Must not know: what stands in them. `tests/test_documents.py` holds the pages against this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import reference_commands
import reference_errors
import reference_tables
import reference_telemetry

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "reference"
PAGES: Mapping[str, Callable[[], str]] = {
    "catalogue-tables.md": reference_tables.page,
    "command-line.md": reference_commands.page,
    "errors.md": reference_errors.page,
    "log.md": reference_telemetry.log_page,
    "metrics.md": reference_telemetry.metrics_page,
}


if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page())
