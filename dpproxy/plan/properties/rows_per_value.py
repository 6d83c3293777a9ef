"""How few rows of a unit share the values of some columns: after GROUP BY or DISTINCT one, after `row_number() <= 3` three.

Knows: relations and the conditions their rows satisfy. Must not know: SQL text, engines, policies. `bounds` of a policy speak of
a table's rows in any group; what a query makes of them is often fewer by its very form, and the noise then with it. What is
known here only ever lowers what a unit's contribution is clamped to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from dpproxy.plan.properties.equivalence import equal_to
from dpproxy.plan.properties.narrowing import narrowed_bound
from dpproxy.tree.expr import Column, Expr, Ref, Win
from dpproxy.tree.relation import SINGLE, Contribution, Numbered, Rows, RowsPerValue

MOST_KNOWN = 8  # of one relation: what is known of two sides of a join multiplies


def grouped(rows: Rows, columns: Sequence[Column]) -> tuple[RowsPerValue, ...]:
    """Say what is known of rows that are grouped or made distinct by the unit and these columns. A unit has one value of a
    constant column."""
    return () if rows.unit is None else (RowsPerValue(_varying(rows, columns), 1),)


def numbered(rows: Rows, column: int, value: Expr) -> tuple[Numbered, ...]:
    """Say what a column says of rows when it is their `row_number()`."""
    if not isinstance(value, Win) or value.name != "row_number" or rows.unit is None:
        return ()
    among = [p.column for p in value.partition if isinstance(p, Ref)]
    whole = len(among) == len(value.partition)
    return (Numbered(column, _varying(rows, among), rows.beside),) if whole else ()


def _varying(rows: Rows, columns: Sequence[Column]) -> frozenset[int]:
    assert rows.unit is not None
    units = equal_to({rows.unit.id}, rows.conditions)
    return frozenset(c.id for c in columns if c.id not in units and not c.constant)


def known(rows: Rows, conditions: Sequence[Expr] = ()) -> tuple[RowsPerValue, ...]:
    """All that is known of the rows, of which those are left that satisfy the conditions."""
    found = [RowsPerValue(frozenset(), 1, rows.beside)] if rows.one else []
    found += rows.per_value
    columns = {c.id: c for c in rows.node.columns}
    for number in rows.contribution.numbers:
        column = columns.get(number.column)
        bound = narrowed_bound(Ref(column.type, column), [*rows.conditions, *conditions]) if column is not None else None
        if bound is not None and bound.hi is not None:
            found.append(RowsPerValue(number.among, max(int(bound.hi), 1), number.beside))
    return tuple(dict.fromkeys(found))[:MOST_KNOWN]


def of_joined(sides: Sequence[tuple[Rows, Sequence[RowsPerValue]]]) -> tuple[RowsPerValue, ...]:
    """Say what is known of private relations that are joined on the unit, from what is known of each."""
    beside = tuple(b for rows, _ in sides for b in rows.beside)
    found = [(RowsPerValue(frozenset(), 1), True)]  # and whether the rows are counted that public relations repeat
    for rows, entries in sides:
        both = ((a, counted and b.beside == rows.beside, b) for (a, counted), b in product(found, entries))
        found = [(RowsPerValue(a.columns | b.columns, a.rows * b.rows), counted) for a, counted, b in both][:MOST_KNOWN]
    return tuple(dict.fromkeys(replace(entry, beside=beside if counted else ()) for entry, counted in found))


def in_group(rows: Rows, keys: Sequence[Expr]) -> tuple[RowsPerValue, ...]:
    """Say what bounds the rows of a unit in one group by `keys`. Whole contributions are bounded over all groups together."""
    return () if not known(rows) else _shared(rows, () if rows.limits.whole else keys)


def _shared(rows: Rows, keys: Sequence[Expr]) -> tuple[RowsPerValue, ...]:
    """What is known of rows that share the values of these keys."""
    shared = equal_to({key.column.id for key in keys if isinstance(key, Ref)}, rows.conditions)
    return tuple(entry for entry in known(rows) if entry.columns <= shared)


def there(rows: Rows, keys: Sequence[Expr]) -> tuple[RowsPerValue, ...]:
    """Say what is known of how many rows of a unit there are in a group by `keys`, whatever contribution bounds let count."""
    return _shared(rows, keys)


def first_only(rows: Rows) -> Rows:
    """Return the rows cut to one of each unit where a condition on their number leaves no more: nothing else needs to be known
    then.

    That they are one is not claimed (`Rows.one`), it is enforced: what is wrong in what is known here costs accuracy, never
    privacy. Whatever public relations repeat must be in that number: `RowsPerValue.beside` is then `Rows.beside`, relation
    for relation. Two relations never have equal entries there, as no two have a column in common, and one without an entry
    has one row.
    """
    if rows.one or rows.padded or rows.unit is None:
        return rows
    if not any(not entry.columns and entry.rows == 1 and entry.beside == rows.beside for entry in known(rows)):
        return rows
    return rows.contributing(Contribution(SINGLE, per_value=(RowsPerValue(frozenset(), 1),)))
