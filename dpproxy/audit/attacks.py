"""Attacks on two running proxies: what was published of ways to learn of one person from answers, tried, and their success
measured.

Knows: answers, two proxies, statements. Must not know: how success is judged (`black_box`). Each attack says what it spent
and what that allows it. Averaging and tracing use the answers of the black box: asking again would only cost time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from dpproxy.amounts import MICRO
from dpproxy.answers.answering import Answering
from dpproxy.answers.dataset import Asker, Dataset, words_of
from dpproxy.answers.plan_cache import plans_for
from dpproxy.answers.question import Literals, Question
from dpproxy.answers.statement_end import Ending
from dpproxy.audit import black_box
from dpproxy.audit.bench import AuditBench, Statement, Subject
from dpproxy.audit.black_box import Attack, Figure, Point
from dpproxy.audit.events import Outcome
from dpproxy.audit.wire import Answers, Pair, answer, ask, sessions
from dpproxy.authoring.progress import Progress, silent
from dpproxy.backends.duckdb import DuckDB
from dpproxy.engines import literal
from dpproxy.errors import Refusal
from dpproxy.ledger.ledger import Ledger
from dpproxy.mechanisms.noise_sources import DefaultNoise
from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.policy.model import Budget, ColumnRole, DuckDBBackend, Policy, TableKind, User
from dpproxy.policy.names import quote_name
from dpproxy.records.sqlite import SqliteLedger

# Whether more is answered than is paid for: the same question again and again, and many at once, against a budget for a few.
#
# Knows: datasets, ledgers, questions. Must not know: the wire. This is the product's own way from a question to its answer
# (`answers.answering`), with a ledger in a folder that is thrown away and no facade. However questions come, what was answered
# may not cost more than the budget (Haeberlen, Pierce, Narayan 2011: budgets are a place of attacks like any other).


PAID_FOR: Final = 5
"""Answers that the budget is for."""
TRIED: Final = 24

Wrapped = Callable[[Ledger], Ledger]


@dataclass(frozen=True)
class Spent:
    """How many answers there were, of how many that the budget is for: asked one after the other, and all at once."""

    epsilon: float
    paid_for: int
    in_turn: int
    at_once: int

    @property
    def overspent(self) -> bool:
        return max(self.in_turn, self.at_once) > self.paid_for


def accounting(bench: AuditBench, asked: Statement, wrapped: Wrapped) -> Spent:
    """Ask a statement more often than its budget is for. Raises Refusal where it is not answered at all."""
    plan = bench.bench.planned(asked.role, asked.sql, dict(asked.settings))
    if plan is None:
        raise ValueError("a statement over private rows is needed")
    return asyncio.run(_both(bench, asked, plan, wrapped))


async def _both(bench: AuditBench, asked: Statement, plan: Plan, wrapped: Wrapped) -> Spent:
    in_turn = await _answered(bench, asked, plan, wrapped, False)
    at_once = await _answered(bench, asked, plan, wrapped, True)
    return Spent(plan.loss.epsilon / MICRO, PAID_FOR, in_turn, at_once)


async def _answered(bench: AuditBench, asked: Statement, plan: Plan, wrapped: Wrapped, at_once: bool) -> int:
    with TemporaryDirectory(dir=bench.folder) as name:
        ledger = SqliteLedger(Path(name) / "ledger.sqlite")
        backend = DuckDB(DuckDBBackend(str(bench.whole)))
        try:
            policy = _small(bench.loaded.policy, asked.role, plan)
            plans = plans_for(policy, bench.bench.catalog, backend.dialect)
            words = words_of(plans.names)
            dataset = Dataset(policy, bench.bench.catalog, backend, wrapped(ledger), plans, DefaultNoise(), literal, words)
            role = policy.roles[asked.role]
            asker = Asker(User("audit", role.name, ""), role)
            tries = [_one(dataset, asker, plan) for _ in range(TRIED)]
            if at_once:
                return sum(await asyncio.gather(*tries))
            return sum([await one for one in tries])
        finally:
            await backend.close()
            ledger.close()


def _small(policy: Policy, role: str, plan: Plan) -> Policy:
    """The policy with a budget for a few answers, of which none is kept."""
    enough = Budget(PAID_FOR * plan.loss.epsilon, max(PAID_FOR * plan.loss.delta, 1), warn=())
    roles = {**policy.roles, role: replace(policy.roles[role], budget=enough)}
    return replace(policy, budget=replace(policy.budget, warn=()), roles=roles, reuse_seconds=None, timing_quantum_ms=None)


async def _one(dataset: Dataset, asker: Asker, plan: Plan) -> bool:
    async def evaluate(indexes: Sequence[int], literals: Literals) -> list[str | None]:
        return [None] * len(indexes)

    try:
        await Answering(Question(dataset, asker, plan, "audit", evaluate, Ending())).run(())
    except Refusal:
        return False
    return True


# Expressions that fail for some values and not for others, where PostgreSQL computes them: asked below an aggregate, they must
# not.
#
# Knows: policies, catalogs, SQL as text. Must not know: what is answered. Each is refused for everybody, or answered for
# everybody.


_OF_NUMBERS = (
    "sum(1 / {x})", "sum({x} / ({x} - {x}))", "sum(sqrt({x}))", "sum(ln({x}))", "sum(exp({x}))", "sum({x} * 1e300 * 1e300)",
    "sum(CAST({x} AS smallint))", "sum(power({x}, 400))", "count(*) FILTER (WHERE mod(CAST({x} AS integer), 0) = 1)",
    "sum(CASE WHEN {x} > 100000 THEN 1 / 0 ELSE 1 END)", "count(DISTINCT repeat('x', CAST({x} AS integer)))", "avg(log({x}))",
)  # fmt: skip
_OF_TEXTS = (
    "count(*) FILTER (WHERE CAST({u} AS integer) > 0)", "count(*) FILTER (WHERE CAST({u} AS date) > date '2024-01-01')",
    "count(*) FILTER (WHERE substring({u}, 1, -1) = '')", "count(*) FILTER (WHERE {u} ~ '(')",
    "count(DISTINCT to_date({u}, 'YYYY-MM-DD'))",
    "count(*) FILTER (WHERE split_part({u}, '-', 0) = '')", "count(DISTINCT chr(length({u}) - 3))",
)  # fmt: skip
_NUMBERS = ("int2", "int4", "int8", "numeric", "float4", "float8")
_TEXTS = ("text", "varchar", "bpchar")
MOST = 40


def probes(policy: Policy, catalog: Catalog) -> tuple[Statement, ...]:
    """Return probes of a number and a text of each table."""
    role = max(policy.roles.values(), key=lambda r: len(r.tables) if r.tables is not None else len(policy.tables))
    return tuple(Statement(role.name, sql, "probe") for sql in _texts(policy, catalog, role.tables))[:MOST]


def _texts(policy: Policy, catalog: Catalog, visible: object) -> Iterator[str]:
    for table in policy.tables.values():
        if table.kind is not TableKind.PEOPLE or (isinstance(visible, frozenset) and table.name not in visible):
            continue
        plain = [c.name for c in catalog.tables[table.name].columns if c.name in table.columns]
        plain = [c for c in plain if table.columns[c].role is ColumnRole.PLAIN]
        types = {c.name: c.type for c in catalog.tables[table.name].columns}
        source = (
            quote_name(table.name.name) if table.name.schema == "public" else f"{table.name.schema}.{quote_name(table.name.name)}"
        )
        for x in [c for c in plain if types[c] in _NUMBERS][:1]:
            yield from (f"SELECT {call.format(x=quote_name(x))} FROM {source}" for call in _OF_NUMBERS)
        for u in [c for c in plain if types[c] in _TEXTS][:1]:
            yield from (f"SELECT {call.format(u=quote_name(u))} FROM {source}" for call in _OF_TEXTS)


TIMES = (1, 2, 3, 5, 8, 12, 20, 40, 100)
"""Answers that are averaged."""
PROBED = 3
"""Times that each probe is asked."""
TIMED = 150
"""Answers of each database whose time is taken."""


def attacks(
    both: Pair,
    bench: AuditBench,
    figures: Sequence[Figure],
    given: Mapping[Statement, Answers],
    seconds: float,
    progress: Progress = silent,
) -> tuple[Attack, ...]:
    """Try all attacks in about so long."""
    steps: tuple[Callable[[], Attack | None], ...] = (
        lambda: averaging(figures, given),
        lambda: tracing(figures, given),
        lambda: differencing(both, bench, figures, seconds / 2),
        lambda: black_box.reconstruction(bench),
        lambda: key_probing(figures, given),
        lambda: error_probing(both, bench),
        lambda: races(bench, figures),
        lambda: timing(both, bench, figures, seconds / 4),
    )
    found = []
    for done, step in enumerate(steps):
        progress("attacking", done, len(steps))
        attack = step()
        found += [attack] if attack is not None else []
    return tuple(found)


def averaging(figures: Sequence[Figure], given: Mapping[Statement, Answers]) -> Attack | None:
    """The same question again and again, each answer paid for: the mean has less noise."""
    counts = [f for f in figures if f.statement.shape in ("sum", "count", "declared key")]
    best: tuple[Point, ...] = ()
    for f in counts:
        found = black_box.averaged(given[f.statement].one, given[f.statement].other, f.epsilon, f.delta, TIMES)
        if max((p.advantage for p in found), default=0) >= max((p.advantage for p in best), default=0):
            best = found
    return Attack("averaging", "one question asked many times, each answer paid for", best) if best else None


def tracing(figures: Sequence[Figure], given: Mapping[Statement, Answers]) -> Attack | None:
    """Many statistics of the same people: is this person among them? (Homer et al. 2008; Dwork et al. 2015, robust
    traceability.)"""
    points: list[Point] = []
    spent = list(accumulate(f.epsilon for f in figures))
    deltas = list(accumulate(f.delta for f in figures))
    for many in sorted({1, 2, 4, 8, len(figures)}):
        if many <= len(figures):
            chosen = [given[f.statement] for f in figures[:many]]
            sides = (black_box.together([a.one for a in chosen]), black_box.together([a.other for a in chosen]))
            points += black_box.averaged(*sides, spent[many - 1], deltas[many - 1], (1,))
    return Attack("tracing", "answers to many different questions, together", tuple(points)) if points else None


def differencing(both: Pair, bench: AuditBench, figures: Sequence[Figure], seconds: float) -> Attack | None:
    """A count of all, less a count of all but one group: what is left is about few people."""
    for table in bench.world.tables:
        rules = bench.loaded.policy.tables[table.shape.name]
        declared = next((c for c in rules.columns.values() if c.values and isinstance(c.values[0], str)), None)
        role = figures[0].statement.role if figures else next(iter(bench.loaded.policy.roles))
        if rules.kind is not TableKind.PEOPLE or declared is None:
            continue
        name, key = quote_name(rules.name.name), quote_name(declared.name)
        value = "'" + str((declared.values or ("",))[0]).replace("'", "''") + "'"
        texts = (f"SELECT count(*) FROM {name}", f"SELECT count(*) FROM {name} WHERE ({key} = {value}) IS NOT TRUE")
        asked = [Statement(role, sql, "differencing") for sql in texts]
        plans = [bench.bench.planned(s.role, s.sql) for s in asked]
        epsilon = sum(p.loss.epsilon for p in plans if p is not None) / MICRO
        answers = [asyncio.run(ask(both, s, seconds / 2)) for s in asked]
        sides = [black_box.together(parts) for parts in ([a.one for a in answers], [a.other for a in answers])]
        points = black_box.averaged(sides[0], sides[1], epsilon, 0.0, TIMES)
        return Attack("differencing", f"all rows of {rules.name} less all but one group's", points) if points else None
    return None


def key_probing(figures: Sequence[Figure], given: Mapping[Statement, Answers]) -> Attack | None:
    """Which groups are shown: a value that one person alone has, NULL among them."""
    points = []
    for f in figures:
        if f.delta and (found := black_box.shown_keys(given[f.statement].one, given[f.statement].other, f.epsilon, f.delta)):
            points.append(found)
    said = f"{len(points)} statements whose groups have to pass a threshold."
    return (
        Attack("NULL and key probing", "whether a group is shown that one person brings", tuple(points), said) if points else None
    )


def error_probing(both: Pair, bench: AuditBench) -> Attack:
    """Expressions that fail for some values only: an error, its message, the columns must be the same on both databases."""
    differ, asked = [], probes(bench.loaded.policy, bench.bench.catalog)
    for statement in asked:
        told = asyncio.run(_codes(both, statement))
        if len(told) > 1:
            differ.append(statement.sql)
    said = f"{len(asked)} probes; {len(differ)} are told apart{': ' + differ[0] if differ else ''}."
    points = (Point(0.0, len(differ) / max(len(asked), 1), float(bool(differ)), 0.0, len(asked)),)
    return Attack("error probing", "expressions that fail for one person's values", points, said)


async def _codes(both: Pair, asked: Statement) -> set[object]:
    """The codes of answers on both; of answers without error the columns alone, since noise decides on NULLs."""
    async with sessions(both, asked, 1) as (here, there):
        found = [await answer(c, asked.sql) for _ in range(PROBED) for c in (*here, *there)]
    return {_error(o) for o in found}


def _error(outcome: Outcome) -> object:
    code = outcome.code
    return code[0] if isinstance(code, tuple) and isinstance(code[0], tuple) else code


def races(bench: AuditBench, figures: Sequence[Figure]) -> Attack | None:
    """Many at once against a budget for a few, and one after the other."""
    if not figures:
        return None
    found = accounting(bench, figures[0].statement, Subject().ledger)
    said = f"a budget for {found.paid_for} answers, {TRIED} tries: {found.in_turn} answers in turn, {found.at_once} at once."
    over = max(0, max(found.in_turn, found.at_once) - found.paid_for)
    point = Point(found.paid_for * found.epsilon, over / TRIED, float(over > 0), 0.0, TRIED)
    return Attack("races", "more answers than are paid for", (point,), said)


def timing(both: Pair, bench: AuditBench, figures: Sequence[Figure], seconds: float) -> Attack | None:
    """How long answers take, in turn on both. Promised only with `timing.quantum`, and then measured in multiples of it."""
    if not figures:
        return None
    one, other = asyncio.run(_times(both, figures[0].statement, seconds))
    if min(len(one), len(other)) < 4 * black_box.FEWEST:
        return None
    half = min(len(one), len(other)) // 2
    edge = (np.median(one[:half]) + np.median(other[:half])) / 2
    slow = bool(np.median(one[:half]) >= np.median(other[:half]))
    right, wrong = ([(t >= float(edge)) is slow for t in given[half:]] for given in (one, other))
    found = black_box.point(sum(right), len(right), sum(wrong), len(wrong), figures[0].epsilon, figures[0].delta)
    medians = f"{1000 * float(np.median(one)):.1f} ms with, {1000 * float(np.median(other)):.1f} ms without, in the median."
    return Attack(
        "timing", "how long an answer takes", (found,), f"{medians} Told, not judged: nothing is promised of time here.", False
    )


async def _times(both: Pair, asked: Statement, seconds: float) -> tuple[list[float], list[float]]:
    found: tuple[list[float], list[float]] = ([], [])
    ends = time.monotonic() + seconds
    async with sessions(both, asked, 1) as opened:
        while time.monotonic() < ends and len(found[0]) < TIMED:
            for times, (connection,) in zip(found, opened, strict=True):
                began = time.perf_counter()
                await answer(connection, asked.sql)
                times.append(time.perf_counter() - began)
    return found
