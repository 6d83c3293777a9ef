"""Attacks on two running proxies: what was published of ways to learn of one person from answers, tried, and their success
measured.

Knows: answers, two proxies, statements. Must not know: how success is judged (`guesses`). Each attack says what it spent and what
that allows it. Averaging and tracing use the answers of the black box: asking again would only cost time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from dpproxy.amounts import MICRO
from dpproxy.audit import guesses, reconstruction
from dpproxy.audit.accounting import TRIED, accounting
from dpproxy.audit.bench import AuditBench
from dpproxy.audit.black_box import Figure
from dpproxy.audit.events import Outcome
from dpproxy.audit.guesses import Attack, Point
from dpproxy.audit.probes import probes
from dpproxy.audit.subject import Statement, Subject
from dpproxy.audit.wire import Answers, Pair, answer, ask, sessions
from dpproxy.authoring.progress import Progress, silent
from dpproxy.policy.names import quote_name

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
        lambda: reconstruction.reconstruction(bench),
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
        found = guesses.averaged(given[f.statement].one, given[f.statement].other, f.epsilon, f.delta, TIMES)
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
            sides = (guesses.together([a.one for a in chosen]), guesses.together([a.other for a in chosen]))
            points += guesses.averaged(*sides, spent[many - 1], deltas[many - 1], (1,))
    return Attack("tracing", "answers to many different questions, together", tuple(points)) if points else None


def differencing(both: Pair, bench: AuditBench, figures: Sequence[Figure], seconds: float) -> Attack | None:
    """A count of all, less a count of all but one group: what is left is about few people."""
    for table in bench.world.tables:
        rules = bench.loaded.policy.tables[table.shape.name]
        declared = next((c for c in rules.columns.values() if c.values and isinstance(c.values[0], str)), None)
        role = figures[0].statement.role if figures else next(iter(bench.loaded.policy.roles))
        if rules.public or declared is None:
            continue
        name, key = quote_name(rules.name.name), quote_name(declared.name)
        value = "'" + str((declared.values or ("",))[0]).replace("'", "''") + "'"
        texts = (f"SELECT count(*) FROM {name}", f"SELECT count(*) FROM {name} WHERE ({key} = {value}) IS NOT TRUE")
        asked = [Statement(role, sql, "differencing") for sql in texts]
        plans = [bench.bench.planned(s.role, s.sql) for s in asked]
        epsilon = sum(p.loss.epsilon for p in plans if p is not None) / MICRO
        answers = [asyncio.run(ask(both, s, seconds / 2)) for s in asked]
        sides = [guesses.together(parts) for parts in ([a.one for a in answers], [a.other for a in answers])]
        points = guesses.averaged(sides[0], sides[1], epsilon, 0.0, TIMES)
        return Attack("differencing", f"all rows of {rules.name} less all but one group's", points) if points else None
    return None


def key_probing(figures: Sequence[Figure], given: Mapping[Statement, Answers]) -> Attack | None:
    """Which groups are shown: a value that one person alone has, NULL among them."""
    points = []
    for f in figures:
        if f.delta and (found := guesses.shown_keys(given[f.statement].one, given[f.statement].other, f.epsilon, f.delta)):
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
    if min(len(one), len(other)) < 4 * guesses.FEWEST:
        return None
    half = min(len(one), len(other)) // 2
    edge = (np.median(one[:half]) + np.median(other[:half])) / 2
    slow = bool(np.median(one[:half]) >= np.median(other[:half]))
    right, wrong = ([(t >= float(edge)) is slow for t in given[half:]] for given in (one, other))
    found = guesses.point(sum(right), len(right), sum(wrong), len(wrong), figures[0].epsilon, figures[0].delta)
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
