"""A policy's text, changed for a trial: over invented data, for everybody who asks, without noise, with wider bounds.

Knows: the keys of policies. Must not know: questions, processes. Trials compare three: the policy as it is, the same with next to
no noise (what is left is what bounds do), and with bounds that nothing reaches as well (what the answer is).
"""

from __future__ import annotations

import io
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

QUIET = 10**9
"""The largest epsilon that a session may ask for: hardly any noise."""
AMPLE = 10**12
"""The largest budget that a policy may give."""
UNREACHED = 10**5
"""Rows, and groups, of a unit: more than invented units have."""


@dataclass(frozen=True)
class Variant:
    """A variant names what is changed. `rows`: factor of all bounds on rows; None: bounds that nothing reaches."""

    dataset: str
    quiet: bool = False
    rows: float | None = 1.0


def asker(role: str) -> str:
    """Return the user that asks for a role in a trial."""
    return f"trial of {role}"


def varied(texts: Sequence[str], variant: Variant, database: Path, verifier: str) -> str:
    """Return one text of a policy for a trial, over a database of invented rows. `texts`: of a policy that is read
    without problems, and of the files that it includes. Every role has one user; no answer is kept."""
    rules = _merged(texts)
    rules["dataset"] = variant.dataset
    rules["backend"] = {"duckdb": str(database)}
    rules["budget"] = {"epsilon": AMPLE, "delta": 0.5, "every": "never"}
    rules["reuse_answers"] = "off"
    rules.pop("timing", None)
    for role in rules["roles"].values():
        _ask_freely(role, variant.quiet)
    rules["users"] = {asker(name): {"role": name, "password": verifier} for name in rules["roles"]}
    for table in rules["tables"].values():
        if isinstance(table, dict) and isinstance(table.get("bounds"), dict):
            table["bounds"] = _bounds(table["bounds"], variant.rows)
    out = io.StringIO()
    YAML(typ="safe", pure=True).dump(rules, out)
    return out.getvalue()


def _merged(texts: Sequence[str]) -> dict[str, Any]:
    """One mapping of all files: what an included one holds is added to the policy's sections."""
    rules, *parts = (YAML(typ="safe", pure=True).load(text) for text in texts)
    rules.pop("include", None)
    for part in parts:
        for section, entries in part.items():
            rules[section] = {**(rules.get(section) or {}), **(entries or {})}
    return dict(rules)


def _ask_freely(role: MutableMapping[str, Any], quiet: bool) -> None:
    query = role["query"]
    if "delta" not in query:
        query["delta"] = float(Decimal(str(role["budget"].get("delta", 0))) / 1000)
    if quiet:
        query.update({"epsilon": QUIET, "max_epsilon": QUIET})
        query.pop("measure_bounds", None)
        role["min_units"] = 1
    role["budget"] = {"epsilon": AMPLE, "delta": 0.5, "every": "never"}


def _bounds(bounds: MutableMapping[str, Any], factor: float | None) -> dict[str, Any]:
    name = "rows" if "rows" in bounds else "rows_per_group"
    if factor is None:
        return {name: UNREACHED, "groups": UNREACHED if name != "rows" else "all"}
    return {**bounds, name: max(1, round(bounds[name] * factor))}
