"""Two policies side by side: what of people becomes more exposed, what less, and what only changes noise.

Knows: policies. Must not know: YAML, data, queries. Each rule below compares one part; a part that nobody compares does not
exist, which a test over the fields of the model keeps true. "More" is meant for the people in the data: more is shown of them,
or more is spent, or to more eyes. Where a change goes both ways (another privacy unit, another path to it) it counts as more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar, assert_never

from dpproxy.amounts import ATTO, MICRO
from dpproxy.budget_windows import WINDOWS, Window
from dpproxy.ledger.ledger import decimal
from dpproxy.policy.model import (
    Bounds,
    Budget,
    ColumnPolicy,
    ColumnRole,
    DuckDBBackend,
    Policy,
    PostgresBackend,
    Previews,
    QueryLimits,
    Randomised,
    Reports,
    Role,
    TableKind,
    TablePolicy,
    User,
)
from dpproxy.policy.scalars import length_text
from dpproxy.table_terms import TableName

T = TypeVar("T")

_OPEN = {ColumnRole.HIDDEN: 0, ColumnRole.UNIT: 1, ColumnRole.KEY: 1, ColumnRole.PLAIN: 2}
_KIND = {ColumnRole.HIDDEN: "hidden", ColumnRole.UNIT: "unit", ColumnRole.KEY: "key", ColumnRole.PLAIN: "shown in aggregates"}

_SHOWN: Mapping[Previews, str] = {
    "refuse": "refused",
    "empty": "answered with no rows",
    "synthetic": "answered with invented rows",
}


class Direction(StrEnum):
    """Whom a change serves."""

    MORE = "more exposed"
    LESS = "less exposed"
    NOISE = "other noise"
    OTHER = "no exposure"


@dataclass(frozen=True, order=True)
class Change:
    """A change is one difference. `where` names the part of the policy, as in `tables.orders.amount`."""

    direction: Direction
    where: str
    what: str


def changes(old: Policy, new: Policy) -> tuple[Change, ...]:
    """Return every difference between two policies, what exposes more first, then by place."""
    order = list(Direction)
    return tuple(sorted(_changes(old, new), key=lambda c: (order.index(c.direction), c.where, c.what)))


def grows(found: tuple[Change, ...]) -> bool:
    """Tell whether something becomes more exposed."""
    return any(change.direction is Direction.MORE for change in found)


def _changes(old: Policy, new: Policy) -> Iterator[Change]:
    yield from _whole(old, new)
    yield from _budget("budget", old.budget, new.budget)
    for place, a, b in _paired("tables", _by_text(old.tables), _by_text(new.tables)):
        yield from _table(place, a, b)
    for place, was, now in _paired("views", _by_text(old.views), _by_text(new.views)):
        if was is None or now is None:
            yield Change(_side(now is not None), place, "the view is new" if was is None else "the view is gone")
        elif was != now:
            yield Change(Direction.MORE, place, "the view selects something else: read it")
    for place, first, second in _paired("roles", old.roles, new.roles):
        yield from _role(place, first, second)
    for place, one, other in _paired("users", old.users, new.users):
        yield from _user(place, one, other)


def _by_text(parts: Mapping[TableName, T]) -> dict[str, T]:
    return {str(name): part for name, part in parts.items()}


def _paired(where: str, old: Mapping[str, T], new: Mapping[str, T]) -> Iterator[tuple[str, T | None, T | None]]:
    for name in sorted({*old, *new}):
        yield f"{where}.{name}", old.get(name), new.get(name)


def _side(more: bool) -> Direction:
    return Direction.MORE if more else Direction.LESS


def _whole(old: Policy, new: Policy) -> Iterator[Change]:
    if old.dataset != new.dataset:
        yield Change(
            Direction.MORE,
            "dataset",
            f"is called `{new.dataset}`, not `{old.dataset}`: without `ledger name`, spending begins anew",
        )
    if _source(old) != _source(new):
        yield Change(Direction.OTHER, "backend", "the data come from another place")
    before, after = (f"{p.unit_name} ({p.unit_table}.{p.unit_column})" for p in (old, new))
    if before != after:
        yield Change(Direction.MORE, "privacy_unit", f"who is protected changes from {before} to {after}")
    if old.mechanism != new.mechanism:
        yield Change(Direction.NOISE, "mechanism", f"noise is {new.mechanism}, not {old.mechanism}")
    if (old.reuse_seconds, old.epoch) != (new.reuse_seconds, new.epoch):
        yield Change(Direction.OTHER, "reuse_answers", "answers are kept for another time: repetitions cost more, or less")
    if old.accelerate != new.accelerate:
        yield Change(Direction.OTHER, "accelerate", "prepared copies of the data are kept otherwise: answers take other times")
    if old.timing_quantum_ms != new.timing_quantum_ms:
        less = (new.timing_quantum_ms or 0) < (old.timing_quantum_ms or 0)
        what = f"answers wait for multiples of {_ms(new.timing_quantum_ms)}, not {_ms(old.timing_quantum_ms)}"
        yield Change(_side(less), "timing.quantum", what)


def _source(policy: Policy) -> tuple[str, str]:
    backend = policy.backend
    if isinstance(backend, DuckDBBackend):
        return "duckdb", backend.path
    return ("postgres", backend.dsn) if isinstance(backend, PostgresBackend) else ("spark", f"{backend.url} {backend.catalog}")


def _ms(quantum: int | None) -> str:
    return f"{quantum} ms" if quantum else "nothing"


# --- budgets


def _budget(where: str, old: Budget, new: Budget) -> Iterator[Change]:
    for name, unit in (("epsilon", MICRO), ("delta", ATTO)):
        was, now = getattr(old, name), getattr(new, name)
        if (was, old.every) == (now, new.every) or not (was or now):
            continue
        more = _faster(was, old.every, now, new.every)
        yield Change(_side(more), f"{where}.{name}", f"{_amount(now, unit, new)}, was {_amount(was, unit, old)}")
    if old.warn != new.warn:
        yield Change(Direction.OTHER, f"{where}.warn", "warnings come at other levels")


def _faster(was: int, every: Window, now: int, again: Window) -> bool:
    """Whether more can be spent: in one window, or in a year of windows."""
    return now > was or now * WINDOWS[again].a_year > was * WINDOWS[every].a_year


def _amount(amount: int, unit: int, budget: Budget) -> str:
    return f"{decimal(amount, unit)} " + ("in all" if budget.every == "never" else f"a {budget.every}")


# --- tables

_OPENNESS: Final = (TableKind.PEOPLE, TableKind.REPORTS, TableKind.PUBLIC)
"""Kinds of tables, from the one that shows the least."""


def _kind_told(kind: TableKind, now: str = "") -> str:
    match kind:
        case TableKind.PUBLIC:
            return f"is public{now}: all its rows are shown"
        case TableKind.REPORTS:
            return f"holds reports{now}: answers about them cost no epsilon, and plain columns have no noise"
        case TableKind.PEOPLE:
            return f"is private{now}"
        case _:
            assert_never(kind)


def _table(where: str, old: TablePolicy | None, new: TablePolicy | None) -> Iterator[Change]:
    if old is None or new is None:
        there = new or old
        assert there is not None
        what = f"the table is {'new' if old is None else 'gone'} ({_kind_told(there.kind).removeprefix('is ')})"
        yield Change(_side(new is not None), where, what)
        return
    if old.kind is not new.kind:
        yield Change(_side(_OPENNESS.index(new.kind) > _OPENNESS.index(old.kind)), where, _kind_told(new.kind, " now"))
        return
    if old.reviewed != new.reviewed:
        what = f"is about nobody, by a review: {new.reviewed}" if new.reviewed else "is on record as about nobody no more"
        yield Change(Direction.OTHER, f"{where}.public", what)
    if old.unit != new.unit:
        yield Change(
            Direction.MORE, f"{where}.unit", "rows belong to their unit by another column or path: check that it is right"
        )
    if old.joined != new.joined:
        yield Change(Direction.MORE, f"{where}.unit", "rows belong to their unit by other columns: check that they are right")
    if old.unprotected != new.unprotected:
        named = ", ".join(f"`{column}`" for column in new.unprotected) or "none"
        yield Change(Direction.OTHER, f"{where}.unprotected", f"columns that name units which a row does not protect: {named}")
    if old.rows_at_most != new.rows_at_most:
        yield Change(
            Direction.OTHER, f"{where}.rows_at_most", "closes intervals by another number of rows: check that it is true"
        )
    if old.one != new.one:
        yield Change(Direction.NOISE, f"{where}.unique", "holds one row a unit" if new.one else "may hold several rows a unit")
    if old.keys != new.keys:
        yield Change(
            Direction.OTHER, f"{where}.keys", "lists other keys, by which rows may be joined: check that they are unique"
        )
    if new.kind is TableKind.PEOPLE and old.one == new.one and old.bounds != new.bounds:
        yield Change(Direction.NOISE, f"{where}.bounds", _bounds(old.bounds, new.bounds))
    if old.reports is not None and new.reports is not None:
        yield from _reports(f"{where}.reports", old.reports, new.reports)
    for place, a, b in _paired(where, old.columns, new.columns):
        yield from _column(place, a, b, new.kind.shown)


def _reports(where: str, old: Reports, new: Reports) -> Iterator[Change]:
    """What a device tells: more in one report, on one day, or over the days that reports are kept."""
    for name, was, now in (
        ("epsilon", float(old.epsilon), float(new.epsilon)),
        ("per_day", old.per_day, new.per_day),
        ("keep", old.keep_days or math.inf, new.keep_days or math.inf),
    ):
        if was != now:
            yield Change(_side(now > was), f"{where}.{name}", f"{now:g}, was {was:g}".replace("inf", "for ever"))
    if old.at_least != new.at_least:
        what = f"groups of at least {new.at_least} reports are shown, was {old.at_least}"
        yield Change(_side(new.at_least < old.at_least), f"{where}.at_least", what)
    if old.fresh != new.fresh:
        what = "devices draw for each report anew" if new.fresh else "devices draw once for each value"
        yield Change(_side(new.fresh), f"{where}.answers", f"{what}: check that they do")
    if old.cells != new.cells:
        yield Change(Direction.OTHER, f"{where}.rows", f"rows are {'cells' if new.cells else 'single reports'} now")


def _bounds(old: Bounds, new: Bounds) -> str:
    """What the bounds are, and how much noisier counts and sums are under Laplace noise."""
    text = f"{_limit(new)}, was {_limit(old)}"
    before, after = _weight(old), _weight(new)
    return f"{text}: the noise of counts and sums is {after / before:.3g} times what it was" if before and after else text


def _limit(bounds: Bounds) -> str:
    groups = "all groups" if bounds.groups is None else f"{bounds.groups} groups"
    return f"{bounds.rows} rows over {groups}" if bounds.whole else f"{bounds.rows} rows in each of {groups}"


def _weight(bounds: Bounds) -> int | None:
    if bounds.whole:
        return bounds.rows
    return bounds.rows * bounds.groups if bounds.groups is not None else None


def _column(where: str, old: ColumnPolicy | None, new: ColumnPolicy | None, public: bool) -> Iterator[Change]:
    hidden = ColumnRole.PLAIN if public else ColumnRole.HIDDEN
    was, now = old.role if old else hidden, new.role if new else hidden
    if was is not now:
        yield Change(_side(_OPEN[now] >= _OPEN[was]), where, f"is {_KIND[now]}, was {_KIND[was]}")
        return
    if old is None or new is None or now is ColumnRole.HIDDEN:
        return
    if old.values != new.values:
        yield from _values(where, old, new)
    if old.nulls != new.nulls:
        yield Change(Direction.NOISE, where, "NULL is a group of its own" if new.nulls else "NULL is in no group any more")
    if (old.range, old.lasts) != (new.range, new.lasts):
        yield Change(Direction.NOISE, where, f"its range is {_range(new)}, was {_range(old)}{_wider(old, new)}")
    if (old.resolution, old.length) != (new.resolution, new.length):
        yield Change(Direction.NOISE, where, "its grid (`resolution`, `length`) is another")
    if old.plain != new.plain:
        yield Change(_side(new.plain), where, "is shown without noise" if new.plain else "is not shown without noise any more")
    if old.randomised != new.randomised:
        yield from _randomised(where, old.randomised, new.randomised)
    if old.references != new.references:
        yield Change(Direction.MORE, where, "rows are joined with their unit's rows by another reference: check that it is right")


def _randomised(where: str, old: Randomised | None, new: Randomised | None) -> Iterator[Change]:
    if old is None or new is None:
        what = (
            "was randomised on devices: answers take that out" if new is not None else "was not randomised, says the policy now"
        )
        yield Change(Direction.NOISE, where, what)
        return
    names = [", ".join(dict.fromkeys(f"{c.name} at epsilon {float(c.epsilon):.6g}" for _, c in r.claims)) for r in (old, new)]
    said = (
        f"randomised by {names[1]}, was {names[0]}"
        if names[0] != names[1]
        else "randomised by other parameters, or stored elsewhere"
    )
    yield Change(Direction.MORE if new.epsilon > old.epsilon else Direction.NOISE, where, f"{said}: check that devices do so")


def _values(where: str, old: ColumnPolicy, new: ColumnPolicy) -> Iterator[Change]:
    if old.values is None:
        yield Change(Direction.LESS, where, "its values are declared: others are not shown any more")
    elif new.values is None:
        yield Change(Direction.MORE, where, "its values are not declared any more: what many people have is shown as it is")
    else:
        added, gone = [v for v in new.values if v not in old.values], [v for v in old.values if v not in new.values]
        if added:
            yield Change(Direction.MORE, where, f"{_some(added)} can be shown as groups")
        if gone:
            yield Change(Direction.LESS, where, f"{_some(gone)} cannot be shown any more")


def _some(values: Sequence[object]) -> str:
    shown = ", ".join(f"`{v}`" for v in values[:5])
    return shown if len(values) <= 5 else f"{shown} and {len(values) - 5} more values"


def _range(column: ColumnPolicy) -> str:
    if column.lasts is not None:
        return f"[{length_text(column.lasts[0])}, {length_text(column.lasts[1])}]"
    return f"[{column.range[0]}, {column.range[1]}]" if column.range is not None else "not declared"


def _wider(old: ColumnPolicy, new: ColumnPolicy) -> str:
    if old.lasts and new.lasts:
        before, after = (max(abs(end) for end in ends) for ends in (old.lasts, new.lasts))
        return f": the noise of its sums is up to {after / before:.3g} times what it was" if before else ""
    if old.range is None or new.range is None or not isinstance(old.range[0], type(new.range[0])):
        return ""
    try:
        largest = [float(max(abs(end) for end in c.range)) for c in (old, new) if c.range]  # type: ignore[arg-type]
    except TypeError:
        return ""  # of dates
    return f": the noise of its sums is up to {largest[1] / largest[0]:.3g} times what it was" if largest[0] else ""


# --- people


def _role(where: str, old: Role | None, new: Role | None) -> Iterator[Change]:
    if old is None or new is None:
        yield Change(_side(new is not None), where, "the role is new" if old is None else "the role is gone")
        return
    yield from _budget(f"{where}.budget", old.budget, new.budget)
    yield from _query(f"{where}.query", old.query, new.query)
    if old.tables != new.tables:
        everything = new.tables is None or (old.tables is not None and not new.tables <= old.tables)
        names = "every table" if new.tables is None else ", ".join(sorted(map(str, new.tables)))
        yield Change(_side(everything), f"{where}.tables", f"the role sees {names}")
    if old.min_units != new.min_units:
        what = f"undeclared groups need {new.min_units} units, were {old.min_units}"
        yield Change(_side(new.min_units < old.min_units), f"{where}.min_units", what)
    if old.temp_tables != new.temp_tables:
        yield Change(Direction.OTHER, f"{where}.temp_tables", f"may{'' if new.temp_tables else ' not'} make temporary tables")
    if old.previews != new.previews:
        what = f"queries for rows of people without a filter are {_SHOWN[new.previews]}, were {_SHOWN[old.previews]}"
        yield Change(Direction.OTHER, f"{where}.previews", what)


def _query(where: str, old: QueryLimits, new: QueryLimits) -> Iterator[Change]:
    if old.epsilon != new.epsilon:
        noise = f"noise is {old.epsilon / new.epsilon:.3g} times what it was"
        what = f"a query costs {decimal(new.epsilon, MICRO)}, was {decimal(old.epsilon, MICRO)}: {noise}"
        yield Change(_side(new.epsilon > old.epsilon), f"{where}.epsilon", what)
    if old.max_epsilon != new.max_epsilon:
        what = f"a query may cost {decimal(new.max_epsilon, MICRO)}, was {decimal(old.max_epsilon, MICRO)}"
        yield Change(_side(new.max_epsilon > old.max_epsilon), f"{where}.max_epsilon", what)
    if old.delta != new.delta:
        what = f"{decimal(new.delta, ATTO)}, was {decimal(old.delta, ATTO)}"
        yield Change(_side(new.delta > old.delta), f"{where}.delta", what)
    if old.measure_bounds != new.measure_bounds:
        what = f"{decimal(new.measure_bounds, MICRO)} of a query's epsilon measures what bounds cut"
        yield Change(Direction.NOISE, f"{where}.measure_bounds", what)
    if old.parameter_bytes != new.parameter_bytes:
        what = f"a statement's parameters may have {new.parameter_bytes} bytes, was {old.parameter_bytes}"
        yield Change(Direction.OTHER, f"{where}.parameter_bytes", what)


def _user(where: str, old: User | None, new: User | None) -> Iterator[Change]:
    if old is None or new is None:
        there = new or old
        assert there is not None
        yield Change(_side(new is not None), where, f"the user is {'new' if old is None else 'gone'} (role `{there.role}`)")
        return
    if old.role != new.role:
        yield Change(Direction.MORE, f"{where}.role", f"is `{new.role}`, was `{old.role}`")
    if old.password != new.password:
        yield Change(Direction.OTHER, f"{where}.password", "is another")
    if old.budget is None or new.budget is None:
        if old.budget != new.budget:
            yield Change(
                _side(new.budget is None),
                f"{where}.budget",
                "has none of its own" if new.budget is None else "has one of its own",
            )
    else:
        yield from _budget(f"{where}.budget", old.budget, new.budget)
