"""Pairs of SQL for each rewriting rule: `fixtures/rewrite/<rule>.yaml`, in YAML that needs no Python to extend.

Each file has `policy`, the name of a policy in `fixtures`, and `cases`:

    - before: SELECT sum(l.x) FROM orders o, LATERAL (SELECT o.qty + 1) AS l(x)
      after: SELECT sum((o.qty + 1)) FROM orders AS o     # what the rule makes of it, whitespace aside
      unexecuted: DuckDB knows no such function           # optional: why the two texts are not executed
      refused: ...                                        # optional: why what the rule makes is refused all the same
    - before: SELECT count(*) FROM orders o CROSS JOIN LATERAL (SELECT o.qty AS x WHERE o.qty > 3) l
      same: it has a row or none                          # the rule leaves it alone, and why
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import plan_harness
from ruamel.yaml import YAML

FOLDER = plan_harness.FIXTURES / "rewrite"


@dataclass(frozen=True)
class RuleCase:
    """One case of one rule; `after` or `same` is empty."""

    rule: str
    policy: str
    before: str
    after: str = ""
    same: str = ""
    unexecuted: str = ""
    refused: str = ""

    def __str__(self) -> str:
        return f"{self.rule}: {' '.join(self.before.split())[:90]}"


def load() -> tuple[RuleCase, ...]:
    """All cases of all rules. An unknown field is an error: a misspelt expectation must not pass for none."""
    return tuple(case for path in sorted(FOLDER.glob("*.yaml")) for case in _cases(path))


def _cases(path: Path) -> list[RuleCase]:
    content = YAML(typ="safe").load(path.read_text())
    cases = [RuleCase(path.stem, content["policy"], **entry) for entry in content["cases"]]
    for case in cases:
        assert bool(case.after) != bool(case.same), f"{case}: one of after and same"
    return cases


CASES = load()
CHANGED = tuple(case for case in CASES if case.after)
ALIKE = tuple(case for case in CASES if case.same)
