"""Fixtures of the planner: pairs of SQL and what must become of it, in YAML that needs no Python to extend.

Each file of `fixtures/` and of its folders, which are the rooms of `plan`, but the policies has `policy`, the name of a policy
there, and `cases` (those of `fixtures/rewrite`, which are before and after, have a reader of their own):

    - sql: SELECT region, count(*) FROM customers WHERE income > $1 GROUP BY 1
      types: [int4]                       # PostgreSQL types of $1.., when there are any
      values: ['1000']                    # and values to run it with, as text
      role: careful                       # default: analyst
      settings: { dpproxy.epsilon: '2' }  # of the session
      accept:                             # one line a measurement, in order
        - { keys: [region], groups: declared, l0: 1, linf: [1], declared: [north, south, east, west] }
      generates: [SELECT ...]             # optional: the generated SQL, whitespace aside
      exact: declared                     # optional, see `Case.exact`
    - sql: SELECT * FROM customers
      refuse: { sqlstate: '42501', says: answers are aggregates, at: '*' }

`groups` is `one` (no keys), `declared` (all of them, empty ones too), `threshold` or `top k`. `linf` lists the sensitivity of
each basis column in grid units; `clamps` has both ends of each clamp, and `declared` which groups are declared (`fixture_pins`;
`scripts/pins` writes these fields of all fixtures). `at` is how the text at the refusal's position begins; `hint`, optional, is said in what to do instead. Accepted statements are also
executed: on databases with and without each unit, and against PostgreSQL without noise. Statements of tools, in `tool_statements`,
are written so, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import plan_harness
import pytest
from plan_harness import Planned
from ruamel.yaml import YAML

from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Policy
from dpproxy.sql.template import Dialect


@dataclass(frozen=True)
class Case:
    """`exact`: empty: without noise the answer is plain SQL's; `declared`: only with the declared groups filled in;
    anything else: why it is not compared."""

    file: str
    policy: str
    sql: str
    role: str = "analyst"
    types: tuple[str, ...] = ()
    values: tuple[str | None, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    accept: Sequence[Mapping[str, Any]] | None = None
    refuse: Mapping[str, str] | None = None
    generates: tuple[str, ...] = ()
    exact: str = ""

    def plan(self, catalog: Catalog, given: Policy | None = None) -> Plan:
        settings = {name.replace(".", "__"): str(value) for name, value in self.settings.items()}
        chosen = given or plan_harness.policy(self.policy)
        return plan_harness.plan(self.sql, catalog, chosen, self.role, self.types, **settings)

    def known(self, catalog: Catalog) -> Planned:
        """The plan by the case's own policy, made once for each engine: not for tests that change the planner."""
        key = (id(self), id(catalog), plan_harness.engine)
        if key not in _KNOWN:
            _KNOWN[key] = plan_harness.planned(lambda: self.plan(catalog))
        return _KNOWN[key]

    def known_plan(self, catalog: Catalog) -> Plan:
        return self.known(catalog).plan

    def __str__(self) -> str:
        return f"{self.file}: {' '.join(self.sql.split())[:90]}"


_KNOWN: dict[tuple[int, int, Dialect], Planned] = {}


def load(folder: Path) -> tuple[Case, ...]:
    """All cases in a folder. An unknown field is an error: a misspelt expectation must not pass for none."""
    return tuple(case for path in files_of(folder) for case in cases_of(path))


def files_of(folder: Path) -> list[Path]:
    """Return the files of a folder that hold cases."""
    found = sorted(folder.rglob("*.yaml"))
    return [path for path in found if not path.name.endswith(".policy.yaml") and path.parent.name != "rewrite"]


def cases_of(path: Path) -> list[Case]:
    content = YAML(typ="safe").load(path.read_text())
    cases = []
    for entry in content["cases"]:
        for name in ("types", "values", "generates"):
            entry[name] = tuple(entry.get(name) or ())
        cases.append(Case(path.stem, content["policy"], **entry))
        assert (cases[-1].accept is None) != (cases[-1].refuse is None), f"{cases[-1]}: one of accept and refuse"
    return cases


def sampled(cases: Sequence[Case], each: int) -> list[Any]:
    """Parameters: one in `each` of the cases, the others in long mode."""
    return [case if i % each == 0 else pytest.param(case, marks=pytest.mark.long) for i, case in enumerate(cases)]


CASES = load(plan_harness.FIXTURES)
ACCEPTED = tuple(case for case in CASES if case.accept is not None)
REFUSED = tuple(case for case in CASES if case.refuse is not None)
TOOLS = load(plan_harness.FIXTURES.with_name("tool_statements"))
"""What tools send, each statement below where it was found: planned by `test_tool_statements`, executed now and then, and in long
mode."""
ACCEPTED_OF_TOOLS = tuple(case for case in TOOLS if case.accept is not None)
