"""Questions asked of a policy over invented rows, through a proxy as analysts have it: how far off its answers are, and why.

Knows: processes, a PostgreSQL client, policies' texts. Must not know: how errors are told. One proxy serves every variant of the
policy (`authoring.trials`), each over a copy of the same file; its ledger and its people are thrown away. What noise does is
seen beside the answer without noise, what bounds do beside the answer that no bound cuts.
"""

from __future__ import annotations

import asyncio
import io
import math
import shutil
import statistics
from collections import Counter
from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from dpproxy import postgres_connections
from dpproxy.authoring.cases import Question
from dpproxy.authoring.progress import Progress, silent
from dpproxy.policy.people import make_verifier
from dpproxy.postgres_connections import FAILURES
from dpproxy.serve.launch import Proxy, launched

# How far answers are off: rows of one answer beside rows of another, cell by cell, relative to what they should be.
#
# Knows: rows of Python values. Must not know: where they come from. Rows belong together that have the same texts, dates and
# truth values, in their order; columns of numbers that never differ are keys, and do not count.


Rows = Sequence[Sequence[Any]]


def deviation(found: Rows, true: Rows, others: Sequence[Rows] = ()) -> float | None:
    """Return the median over cells of |found - true| / |true|, a missing row being off by all of it; None where nothing can be
    compared. `others`: further answers, which say which columns are keys."""
    keyed, width = _keyed(true), len(true[0]) if true else 0
    answers = [_keyed(rows) for rows in (found, *others)]
    counted = [c for c in range(width) if any(_differs(keyed, answer, c) for answer in answers)]
    errors = []
    for key, row in keyed.items():
        other = answers[0].get(key)
        errors += [_off(other[c] if other is not None else 0, row[c]) for c in counted if _number(row[c]) not in (None, 0.0)]
    return statistics.median(errors) if errors else (0.0 if keyed else None)


def missing(found: Rows, true: Rows) -> int:
    """Return how many rows of the true answer are not in the other."""
    there = _keyed(found)
    return sum(key not in there for key in _keyed(true))


def _keyed(rows: Rows) -> dict[tuple[Any, ...], Sequence[Any]]:
    seen: Counter[tuple[Any, ...]] = Counter()
    keyed = {}
    for row in rows:
        key = tuple("" if _number(v) is not None else v for v in row)
        seen[key] += 1
        keyed[(*key, seen[key])] = row
    return keyed


def _differs(true: dict[tuple[Any, ...], Sequence[Any]], other: dict[tuple[Any, ...], Sequence[Any]], column: int) -> bool:
    return any(_number(row[column]) != _number(other[key][column]) for key, row in true.items() if key in other)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return float(value) if math.isfinite(value) else None


def _off(found: Any, true: Any) -> float:
    number, right = _number(found) or 0.0, _number(true)
    assert right
    return abs(number - right) / abs(right)


# A policy's text, changed for a trial: over invented data, for everybody who asks, without noise, with wider bounds.
#
# Knows: the keys of policies. Must not know: questions, processes. Trials compare three: the policy as it is, the same with
# next to no noise (what is left is what bounds do), and with bounds that nothing reaches as well (what the answer is).


QUIET_EPSILON = 10**9
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
        query.update({"epsilon": QUIET_EPSILON, "max_epsilon": QUIET_EPSILON})
        query.pop("measure_bounds", None)
        role["min_units"] = 1
    role["budget"] = {"epsilon": AMPLE, "delta": 0.5, "every": "never"}


def _bounds(bounds: MutableMapping[str, Any], factor: float | None) -> dict[str, Any]:
    name = "rows" if "rows" in bounds else "rows_per_group"
    if factor is None:
        return {name: UNREACHED, "groups": UNREACHED if name != "rows" else "all"}
    return {**bounds, name: max(1, round(bounds[name] * factor))}


AS_IS, QUIET, WHOLE = Variant("as_is"), Variant("quiet", quiet=True), Variant("whole", quiet=True, rows=None)
OTHER_ROWS = {factor: Variant(f"rows_{factor:g}".replace(".", "_"), rows=factor) for factor in (0.25, 0.5, 2.0, 4.0)}
REPEATS = 3
_WORD = "of invented people"


@dataclass(frozen=True)
class Trial:
    """A trial says how far answers to a question are off, as medians over cells, relative to the answer that no bound cuts.

    `noise`: of noise alone; `bounds`: of bounds alone; `both`: of the policy as it is; `other_rows`: of the policy with bounds
    on rows times a factor; `hidden`: rows of the answer that are not shown. None: the question could not be compared;
    `failure` says why.
    """

    noise: float | None = None
    bounds: float | None = None
    both: float | None = None
    other_rows: tuple[tuple[float, float], ...] = ()
    hidden: int = 0
    failure: str = ""


def tried(
    texts: Sequence[str], database: Path, questions: Sequence[Question], folder: Path, progress: Progress = silent
) -> tuple[Trial, ...]:
    """Ask all questions of all variants. `texts`: the policy's, and those that it includes; `folder`: an empty one for what the
    proxy needs. Raises LaunchError, OSError."""
    verifier, variants = make_verifier(_WORD), (AS_IS, QUIET, WHOLE, *OTHER_ROWS.values())
    policies = []
    for variant in variants:
        copied = folder / f"{variant.dataset}.duckdb"
        shutil.copyfile(database, copied)
        path = folder / f"{variant.dataset}.yaml"
        path.write_text(varied(texts, variant, copied, verifier), encoding="utf-8")
        policies.append(path)
    with launched(policies, folder / "state") as proxy:
        return asyncio.run(_all(proxy, questions, progress))


async def _all(proxy: Proxy, questions: Sequence[Question], progress: Progress) -> tuple[Trial, ...]:
    found = []
    for done, question in enumerate(questions):
        progress("asking", done, len(questions))
        try:
            found.append(await _trial(proxy, question))
        except FAILURES as error:
            found.append(Trial(failure=str(error)))
    return tuple(found)


async def _trial(proxy: Proxy, question: Question) -> Trial:
    whole, quiet = await _answer(proxy, WHOLE, question), await _answer(proxy, QUIET, question)
    noisy = [await _answer(proxy, AS_IS, question) for _ in range(REPEATS)]
    others = {factor: [await _answer(proxy, v, question) for _ in range(REPEATS)] for factor, v in OTHER_ROWS.items()}
    every = [quiet, *noisy]
    return Trial(
        noise=_typical(noisy, quiet, every),
        bounds=deviation(quiet, whole, every),
        both=_typical(noisy, whole, every),
        other_rows=tuple((f, off) for f, rows in others.items() if (off := _typical(rows, whole, every)) is not None),
        hidden=round(statistics.median(missing(rows, whole) for rows in noisy)),
    )


def _typical(answers: Sequence[Rows], true: Rows, others: Sequence[Rows]) -> float | None:
    found = [off for rows in answers if (off := deviation(rows, true, others)) is not None]
    return statistics.median(found) if found else None


async def _answer(proxy: Proxy, variant: Variant, question: Question) -> Rows:
    connection = await postgres_connections.connect(
        host=proxy.host, port=proxy.port, user=asker(question.role), password=_WORD, database=variant.dataset, timeout=60
    )
    try:
        for name, value in question.settings:
            if not (variant.quiet and name == "dpproxy.epsilon"):
                await connection.execute("SELECT set_config($1, $2, false)", name, value)
        rows: list[Any] = await connection.fetch(question.query)
        return [tuple(row) for row in rows]
    finally:
        await connection.close()
