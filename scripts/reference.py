"""Writes what is made from the code: pages of docs/reference, the page of policy keys, and the schema of policies for editors.

usage: scripts/reference

Knows: which page is made of what. Must not know: what stands in them. `tests/test_documents.py` holds the pages against this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import reference_commands
import reference_errors
import reference_settings
import reference_tables
import reference_telemetry

from dpproxy.policy import reference as policy_reference

ROOT = Path(__file__).resolve().parents[1]
PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/catalogue-tables.md": reference_tables.page,
    "docs/reference/command-line.md": reference_commands.page,
    "docs/reference/errors.md": reference_errors.page,
    "docs/reference/log.md": reference_telemetry.log_page,
    "docs/reference/metrics.md": reference_telemetry.metrics_page,
    "docs/reference/settings.md": reference_settings.page,
    "docs/policies/reference.md": policy_reference.text,
    "dpproxy.schema.json": policy_reference.schema_text,
}
"""What writes each file, by its path."""


if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page())
