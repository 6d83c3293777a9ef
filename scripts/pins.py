"""What fixtures say of accepted statements, written anew from what the planner makes of them.

    scripts/pins                  all fixtures and statements of tools
    scripts/pins accept_top       those of files whose names hold a word

Only the fields of measurements change: a statement that is refused now stays as it is, and its test fails. `git diff` shows what
moved; the commit says why.

Knows: `tests/plan`. Must not know: what is right.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests" / "plan")]

import fixture_cases  # noqa: E402
import fixture_pins  # noqa: E402
import plan_harness  # noqa: E402
from fixture_cases import Case  # noqa: E402
from plan_harness import Shop  # noqa: E402

from dpproxy.errors import Refusal  # noqa: E402
from dpproxy.policy.catalog import Catalog  # noqa: E402

PLAIN = re.compile(
    r"(?!(?:true|false|null|yes|no|on|off|y|n)$)[a-z]([\w.()+*/ |-]*[\w.)])?|-?\d+\.\.-?\d+( of \d+( from -?\d+)?)?",
    re.IGNORECASE,
)
"""Texts that need no quotes in YAML."""


def spelled(value: Any) -> str:
    """Spell a value in YAML's flow style."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key}: {spelled(part)}" for key, part in value.items()) + " }"
    if isinstance(value, list):
        return f"[{', '.join(map(spelled, value))}]"
    if isinstance(value, str) and "\n" in value:
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) and not PLAIN.fullmatch(value):
        return "'" + value.replace("'", "''") + "'"
    return str(value)


def rewritten(path: Path, cases: list[Case], found: dict[int, list[dict[str, Any]]]) -> str:
    """Return a file with the measurements of its accepted cases in place of those it has."""
    text = path.read_text()
    tree = YAML(typ="rt").compose(text)
    entries = next(value for key, value in tree.value if key.value == "cases").value
    for case, entry in reversed([*zip(cases, entries, strict=True)]):
        at = next((value for key, value in entry.value if key.value == "accept"), None)
        if at is None or id(case) not in found:
            continue
        lines = [spelled(one) for one in found[id(case)]]
        if at.flow_style:
            text = text[: at.start_mark.index] + f"[{', '.join(lines)}]" + text[at.end_mark.index :]
            continue
        for item, line in reversed([*zip(at.value, lines, strict=True)]):
            first, end = item.start_mark.index, item.end_mark.index  # of block style, the end is where the next line begins
            text = text[:first] + line + text[first + len(text[first:end].rstrip()) :]
    return text


def write(path: Path, catalog: Catalog, empty: Shop) -> None:
    """Write one file anew."""
    cases, found = fixture_cases.cases_of(path), dict[int, list[dict[str, Any]]]()
    for case in cases:
        if case.accept is not None:
            try:
                planned = plan_harness.planned(partial(case.plan, catalog))
            except Refusal as refusal:
                print(f"refused, and left as it is: {case}: {refusal.message}", file=sys.stderr)
            else:
                found[id(case)] = fixture_pins.pinned(planned, case.values, empty)
    path.write_text(rewritten(path, cases, found))


def main(words: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        catalog = plan_harness.catalog(Path(folder))
    empty = Shop(1, 0)
    for root in (plan_harness.FIXTURES, plan_harness.FIXTURES.with_name("tool_statements")):
        for path in fixture_cases.files_of(root):
            if not words or any(word in path.name for word in words):
                write(path, catalog, empty)


if __name__ == "__main__":
    main(sys.argv[1:])
