"""Data sets of the corpus: each with its shapes, its policy and its labelled statements.

Knows: the corpus's folder, as it lies outside the repository. Must not know: what a test asks of a plan.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from dpproxy.answers.plan_cache import private_names
from dpproxy.backends.duckdb import DuckDB
from dpproxy.errors import Refusal, UnprovenPlan
from dpproxy.plan.model import Plan
from dpproxy.plan.pipeline import planning
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.load import load_file
from dpproxy.policy.model import DuckDBBackend, Policy
from dpproxy.sql.statements import split
from dpproxy.sql.template import Dialect

POLICIES = Path(__file__).parent / "policies"


@dataclass(frozen=True)
class World:
    """A data set: its shapes, its policy, its labelled statements."""

    policy: Policy
    catalog: Catalog
    entries: Sequence[dict[str, str]]

    def plans(self, dialect: Dialect, entry: dict[str, str]) -> list[Plan]:
        """The plans of what a text reads of private tables. Raises Refusal where any of it is refused, UnprovenPlan."""
        plan = planning(self.policy, self.catalog, dialect)
        statements = [s for s in split(entry["sql"], private_names(self.policy)) if s.private]
        return [plan(s, self.policy.roles["analyst"], {"search_path": "public"}, ()) for s in statements]

    def planned(self, dialect: Dialect, entry: dict[str, str]) -> list[Plan] | None:
        """None where any of a text is refused. Raises UnprovenPlan: that the kernel cannot prove a plan is our fault, and no
        refusal."""
        try:
            return self.plans(dialect, entry)
        except UnprovenPlan:
            raise
        except Refusal:
            return None


async def _shapes(path: Path, policy: Policy) -> Catalog:
    backend = DuckDB(DuckDBBackend(str(path)))
    try:
        public = frozenset(name for name, table in policy.tables.items() if table.kind.shown)
        return await backend.with_public_ranges(await backend.introspect(), public)
    finally:
        await backend.close()


def world(name: str, corpus: Path, file: Path, runs_on: str = "postgres") -> World:
    """A data set, under the policy of a file, with the statements that run on an engine."""
    with mock.patch.dict(os.environ, DPPROXY_CORPUS=str(corpus / "db")):
        policy = load_file(file).policy
    lines = [json.loads(line) for line in (corpus / "open.jsonl").read_text().splitlines()]
    entries = [entry for entry in lines if entry["dataset"] == name and runs_on in entry["runs_on"]]
    return World(policy, asyncio.run(_shapes(corpus / "db" / f"{name}.duckdb", policy)), entries)
