"""How often a row of a unit is repeated by the public rows it is joined with, and what that does to the unit's bounds.

Knows: joins' conditions, sizes of public relations. Must not know: private data, engines. `bounds` of a policy speak of a
table's own rows; joined with every region, each of them is there once a region. A public relation repeats a row at most
as often as it has rows, or as it has rows of one value of a column that an equality fixes. The numbers come from public
data as it was when the proxy started: they decide what is cut, and the cut is made whatever the data has become.
"""

from __future__ import annotations

from calendar import monthrange
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from math import prod

from dpproxy.plan.operations.interval_texts import interval_text
from dpproxy.plan.properties import rows_per_value
from dpproxy.plan.refusals import unsupported
from dpproxy.tree.expr import Call, Column, Expr, Lit, Ref, has_subquery, references
from dpproxy.tree.relation import Beside, ContributionLimits, Rows, RowsPerValue, Values

MANY = 100  # groups a unit is taken to reach of rows whose number is not known when the statement is planned
MOST = 10**6  # rows or groups of one unit: a product beyond is no bound, and the noise would be beyond use


def contribution(rows: Rows, keys: Sequence[Expr]) -> ContributionLimits:
    """Return the most rows of one unit in a group by `keys`, and the groups it reaches."""
    often = repetitions(rows, keys)
    fewest = rows_per_value.in_group(rows, keys)
    repeated, groups = 1, _least([_reached(rows, keys), *(f.rows for f in fewest if not f.columns)])
    for beside, times in often:
        fixed = _fixed(beside, keys)
        fixed += [1] if beside.size is None and any(c.id in beside.columns for key in keys for c in references(key)) else []
        repeated = min(repeated * (times if rows.limits.whole else min([times, *fixed])), MOST)
        if groups is not None and any(c.id in beside.columns for key in keys for c in references(key)):
            groups = min(groups * times, MOST)
    greatest = most_rows(rows, ())
    number = min([rows.limits.rows * repeated, *_of(fewest, rows, repeated), MOST, *([greatest] if greatest is not None else [])])
    counted = [f.rows for f in fewest if not f.columns and f.beside == rows.beside]
    there = _values(rows, keys)
    reached = None if groups is None else _least([groups, there, *counted])
    return ContributionLimits(number, reached, rows.limits.whole, rows.limits.by, greatest)


def repeated(rows: Rows, keys: Sequence[Expr]) -> int | None:
    """Return how often public relations repeat one row in a group by `keys` at most; None where that is not known."""
    often = repetitions(rows, keys)
    times = prod(min([most, *_fixed(beside, keys)]) for beside, most in often)
    return times if len(often) == len(rows.beside) else None


def _fixed(beside: Beside, keys: Sequence[Expr]) -> list[int]:
    """How many rows of a public relation there are of one value of its columns that are keys."""
    return [most for key in keys if isinstance(key, Ref) and (most := dict(beside.most).get(key.column.id))]


def most_rows(rows: Rows, keys: Sequence[Expr]) -> int | None:
    """Return how many rows of one unit there are in a group by `keys` at most, as the statement and the policy tell; None where
    nothing does. No contribution bound is looked at: these say what counts, not what is there."""
    often = repetitions(rows)
    repeated = prod(times for _, times in often) if len(often) == len(rows.beside) else None
    entries = rows_per_value.there(rows, keys)
    known = [f.rows for f in entries if f.beside == rows.beside]
    if repeated is not None:
        known += [f.rows * repeated for f in entries if f.beside != rows.beside]
        known += [rows.limits.greatest * repeated] if rows.limits.greatest is not None else []
    return min(known, default=None)


def _of(fewest: Sequence[RowsPerValue], rows: Rows, repeated: int) -> list[int]:
    """How many rows these are, with those that public relations repeat them by."""
    return [f.rows if f.beside == rows.beside else f.rows * repeated for f in fewest]


def _least(bounds: Sequence[int | None]) -> int | None:
    known = [b for b in bounds if b is not None]
    return min(known) if known else None


def _reached(rows: Rows, keys: Sequence[Expr]) -> int | None:
    """Groups a unit reaches: of relations joined on the unit, only those count whose columns the keys look at."""
    columns = {c.id for key in keys for c in references(key)}
    used = [(ids, groups) for ids, groups in rows.contribution.sides if ids & columns]
    if not used or any(map(has_subquery, keys)) or not columns <= frozenset().union(*(ids for ids, _ in used)):
        return rows.limits.groups
    return min(prod(groups for _, groups in used), MOST)


def _values(rows: Rows, keys: Sequence[Expr]) -> int | None:
    """How many groups there are at most when all keys are of public relations of known sizes."""
    used = [b for b in rows.beside if any(c.id in b.columns for key in keys for c in references(key))]
    whole = {i for b in used for i in b.columns}
    if not keys or not all(references(key) and all(c.id in whole for c in references(key)) for key in keys):
        return None
    sizes = [b.size for b in used]
    return None if None in sizes else max(1, min(prod(s for s in sizes if s is not None), MOST))


def overall_limits(rows: Rows) -> ContributionLimits:
    """Return bounds of the relation itself, whatever it will be grouped by."""
    times = prod(times for _, times in repetitions(rows))
    fewest = _of(rows_per_value.in_group(rows, ()), rows, times)
    groups = rows.limits.groups
    number = min([rows.limits.rows * times, *fewest, MOST])
    reached = _least([None if groups is None else min(groups * times, MOST), *fewest])
    return ContributionLimits(number, reached, rows.limits.whole, rows.limits.by, most_rows(rows, ()))


def with_repetitions(rows: Rows) -> Rows:
    """Return the rows with bounds that count what public relations repeat: these are rows like any others from now on.

    Once `beside` is empty, to be known without its public relations is to be known with all of them: what was known of the rows
    before these were joined is not true of those there are now, and is forgotten.
    """
    known = rows.contribution
    counted = tuple(replace(entry, beside=()) for entry in known.per_value if entry.beside == known.beside)
    numbers = tuple(replace(number, beside=()) for number in known.numbers if number.beside == known.beside)
    unique = known.unique if not known.beside else frozenset[int]()
    made = replace(known, limits=overall_limits(rows), beside=(), per_value=counted, numbers=numbers, unique=unique)
    return rows.contributing(made)


def repetitions(rows: Rows, keys: Sequence[Expr] = ()) -> list[tuple[Beside, int]]:
    """Return each public relation and how many of its rows a row of all that precedes it meets; those of unknown size are left
    out.

    An equality with what is already fixed bounds it, so the order matters: the least is taken first. Groups by rows whose
    number is not known (`generate_series(..., now(), ...)`) are taken to be at most `MANY`, as EXPLAIN says.
    """
    if not rows.beside:
        return []
    waiting = list(rows.beside)
    public = {i for b in waiting for i in b.columns}
    known = {c.id for c in rows.node.columns} - public
    known |= {c.id for e in rows.conditions for c in references(e)} - public
    ties = _ties(rows.conditions)
    own = {id(b): [*ties, *_ties(b.on)] for b in waiting}
    found = []
    while waiting:
        bounds = [_bound(b, known, own[id(b)]) for b in waiting]
        at = min(range(len(waiting)), key=lambda i: MOST + 1 if bounds[i] is None else bounds[i] or 0)
        beside, times = waiting.pop(at), bounds[at]
        known |= beside.columns
        if times is not None:
            found.append((beside, times))
        elif any(c.id in beside.columns for key in keys for c in references(key)) and not _tied(rows, beside):
            found.append((beside, MANY))
    return found


def most_together(besides: Sequence[Beside], conditions: Sequence[Expr]) -> int | None:
    """Return how many combinations of their rows public relations have at most; None where that is not known."""
    waiting, known, ties, most = list(besides), set[int](), _ties(conditions), 1
    while waiting:
        bounds = [_bound(b, known, ties) for b in waiting]
        sizes = [n for n in bounds if n is not None]
        if not sizes:
            return None
        beside = waiting.pop(bounds.index(min(sizes)))
        known |= beside.columns
        most = min(most * min(sizes), MOST)
    return most


def check_repetitions(rows: Rows, keys: Sequence[Expr]) -> None:
    """Raise Refusal where nothing bounds how often a row is repeated in a group."""
    used = {c.id for key in keys for c in references(key)}
    known = {id(beside) for beside, _ in repetitions(rows, keys)}
    for beside in rows.beside:
        if rows.private and id(beside) not in known and not beside.columns & used and not _tied(rows, beside):
            raise unsupported(
                "joining private rows with each of rows whose number is not known",
                "Join them by an equality, group by them, or give generate_series constants.",
            )


def _tied(rows: Rows, beside: Beside) -> bool:
    """Whether an equality ties it to something."""
    return any(c.id in beside.columns for e in [*rows.conditions, *beside.on] for c in _compared(e))


def _compared(condition: Expr) -> tuple[Column, ...]:
    """The columns of an equality."""
    return references(condition) if isinstance(condition, Call) and condition.op == "=" else ()


Tie = tuple[Column, frozenset[int], bool]
"""A column that an equality makes a function of other columns, by id; whether it is equal to them where both are NULL too."""


def _bound(beside: Beside, known: set[int], ties: Sequence[Tie]) -> int | None:
    most = dict(beside.most)
    options = [
        most[column.id]
        for column, others, null_safe in ties
        if column.id in most and others <= known and (beside.nulls or not null_safe)
    ]
    options += [beside.size] if beside.size is not None else []
    return max(min(options), 1) if options else None  # an empty table may have rows later


def _ties(conditions: Sequence[Expr]) -> list[Tie]:
    found: list[Tie] = []
    for condition in conditions:
        if isinstance(condition, Call) and condition.op in ("=", "is_not_distinct") and not has_subquery(condition):
            for side, other in (condition.args, condition.args[::-1]):
                if isinstance(side, Ref):
                    null_safe = condition.op == "is_not_distinct"
                    found.append((side.column, frozenset(c.id for c in references(other)), null_safe))
    return found


# --- what is known of public relations


def beside_values(values: Values) -> Beside:
    """Describe a list of constants."""
    ids = frozenset(c.id for c in values.columns)
    most = []
    for i, column in enumerate(values.columns):
        cells = [row[i] for row in values.rows]
        if all(isinstance(cell, Lit) for cell in cells):
            most.append((column.id, max(Counter(cells).values(), default=0)))
    return Beside(ids, len(values.rows), tuple(most))


def beside_groups(rows: Rows, columns: Sequence[Column], keys: Sequence[Column]) -> Beside:
    """Describe public rows grouped or made distinct by `keys`; no keys: one row."""
    ids = frozenset(c.id for c in columns)
    if not keys:
        return Beside(ids, 1)
    return Beside(ids, most_public_rows(rows), ((keys[0].id, 1),) if len(keys) == 1 else (), nulls=True)


def beside_series(columns: Sequence[Column], start: str, stop: str, step: str) -> Beside:
    """Describe generate_series of constants: whole numbers, or times and an interval. Of others the number of rows is not
    known."""
    ids = frozenset(c.id for c in columns)
    most = tuple((c.id, 1) for c in columns)
    try:
        if start.lstrip("-").isdigit():
            return Beside(ids, max((int(stop) - int(start)) // int(step) + 1, 0), most)
        months, days, micros = (int(x) for x in interval_text(step).split())
        if months > 0 and not days and not micros:
            return Beside(ids, _months(datetime.fromisoformat(start.strip()), datetime.fromisoformat(stop.strip()), months), most)
        least = timedelta(days=28 * months + days, microseconds=micros)
        whole = datetime.fromisoformat(stop.strip()) - datetime.fromisoformat(start.strip())
        return Beside(ids, max(whole // least + 1, 0), most)
    except (ValueError, ZeroDivisionError, KeyError, OverflowError, TypeError):
        return Beside(ids, None, most)


def _months(start: datetime, stop: datetime, step: int) -> int:
    """How often a number of months can be added to a time until it is later than another. Of the 31st a shorter month leaves its
    last day, and so it stays."""
    if start > stop:
        return 0
    index, day, found = start.year * 12 + start.month - 1, start.day, 0
    while found < MOST:
        day = min(day, monthrange(index // 12, index % 12 + 1)[1])
        if datetime.combine(date(index // 12, index % 12 + 1, day), start.time(), start.tzinfo) > stop:
            break
        found, index = found + 1, index + step
        if index // 12 > 9999:
            break
    return found


def most_public_rows(rows: Rows) -> int | None:
    """The most rows a public relation has; None when not known."""
    sizes = [b.size for b in rows.beside]
    return None if None in sizes else min(prod(s for s in sizes if s is not None), MOST)
