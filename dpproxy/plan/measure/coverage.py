"""Which rows the declared groups of a measurement hold: what must be known before groups are added up (answer reuse, ROLLUP).

Knows: declared domains, what the generated SQL and the database's own constraints enforce. Must not know: stored answers,
clients. `values` of a policy say which groups are shown; they do not keep other values out of a table. A row whose key is
NULL or another value is in no group, so groups add up to their total only where one of these is enforced:

- the column comes from a public table by an inner join: the groups are that table's own rows;
- the key is a CASE of constants, or a test of which NULL is a group or cannot be: of declared columns all that these
  come to is listed, of values that are not declared as well;
- the column is a boolean of which NULL is a group, or which the database keeps from being NULL (NOT NULL);
- the statement's own WHERE says that the column is one of some declared values.

The last is not decided here, since parameters may be among these values: columns are said to be `open` that need it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from dpproxy.plan.model import LeftOut
from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.operation import Nulls
from dpproxy.plan.properties.domain_parts import Part
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.key_domains import Dense
from dpproxy.plan.properties.narrowing import narrowed_bound, not_true
from dpproxy.plan.properties.stray_values import values_beyond
from dpproxy.sql.types import INTEGERS
from dpproxy.tree.expr import (
    Call,
    Case,
    Column,
    Domain,
    Expr,
    InList,
    Lit,
    Ref,
    SeriesDomain,
    TableDomain,
    ValuesDomain,
    children,
    conjuncts,
    references,
)
from dpproxy.tree.interval import OPEN, meet
from dpproxy.tree.spelling import Speller

BOTH = {"false", "true"}


def open_columns(dense: Dense, part: Part) -> tuple[Column, ...]:
    """Return columns of a part that may hold values no group of it is for. Those that are no columns of a table (their `id` is
    negative) cannot be limited by a WHERE."""
    computed = {column.id: expr for expr, column in dense.computed}
    return tuple(column for column, domain in part.keyed if not _closed(column, domain, computed))


def _closed(column: Column, domain: Domain, computed: Mapping[int, Expr]) -> bool:
    """Whether every value there can be is in the domain. Ranges are never: a value beyond one is in no group."""
    if not isinstance(domain, ValuesDomain):
        return False
    expr = computed.get(column.id)
    if isinstance(expr, Case):
        return True  # all its results are listed, NULL too where no arm is taken
    if column.type != "bool" or not set(domain.values) >= BOTH:
        return False
    return None in domain.values or not (column.nullable if expr is None else facts(expr).nullable)


def holds_all(dense: Dense, conditions: Sequence[Expr]) -> bool:
    """Tell whether every row that satisfies the conditions is in one of the groups: then finer groups add up to coarser ones."""
    return all(
        _limited(column, domain, conditions) or not _strays(part, column, domain, conditions)
        for part in dense.parts
        for column, domain in _open(dense, part)
    )


def _strays(part: Part, column: Column, domain: Domain, conditions: Sequence[Expr]) -> bool:
    """Whether a row may be in no group because of what it holds in a column: a value that is not declared, of which a key is
    made. What else keys make of one - `CASE WHEN delay > 15 THEN 'late' ELSE 'other' END` - is listed (`stray_values`)."""
    if column.id < 0 or not column.undeclared or isinstance(domain, TableDomain):
        return True
    null, other = values_beyond(column, domain)
    return any(
        (null and _carries(key, column, None, conditions)) or (other and _carries(key, column, domain, conditions))
        for _, key in part.keys
    )


def _open(dense: Dense, part: Part) -> list[tuple[Column, Domain]]:
    columns = open_columns(dense, part)
    return [(column, domain) for column, domain in part.keyed if column in columns]


def _limited(column: Column, domain: Domain, conditions: Sequence[Expr]) -> bool:
    """Whether WHERE keeps a column to values that have groups. No comparison is true of NULL."""
    if column.id < 0:
        return False
    mentions = (Ref(c.type, c) for e in conditions for c in references(e) if c.id == column.id)
    seen = dict.fromkeys(mentions)  # each once; bounds differ from place to place
    if isinstance(domain, ValuesDomain):
        return any(chosen <= set(domain.values) for ref in seen for e in conditions if (chosen := _chosen(ref, e)))
    if not isinstance(domain, SeriesDomain) or column.type not in (*INTEGERS, "date", "timestamp"):
        return False
    said, declared = OPEN, column.bound
    for ref in seen:
        said = meet(said, narrowed_bound(ref, conditions))
    return said.closed and declared.closed and declared.ends[0] <= said.ends[0] and said.ends[1] <= declared.ends[1]


def _chosen(ref: Ref, condition: Expr) -> set[str | None]:
    """The constants a condition keeps a column to; empty for other conditions."""
    match condition:
        case InList(arg=arg, items=items, negated=False) if arg == ref:
            found = list(items)
        case Call(op="=", args=(left, right)) if ref in (left, right):
            found = [right if left == ref else left]
        case _:
            return set()
    return {e.text for e in found if isinstance(e, Lit)} if all(isinstance(e, Lit) for e in found) else set()


def left_out(dense: Dense | None, conditions: Sequence[Expr]) -> tuple[LeftOut, ...]:
    """Say which rows may be in no group, by column."""
    found: dict[str, LeftOut] = {}
    computed = {column.id: expr for expr, column in dense.computed} if dense is not None else {}
    for part in dense.parts if dense is not None else ():
        for column, domain in part.keyed:
            null, other = values_beyond(column, domain)
            null = null and any(_carries(key, column, None, conditions) for _, key in part.keys)
            other = other and any(_carries(key, column, domain, conditions) for _, key in part.keys)
            for name, nulls, others in _said(column, domain, computed, null, other):
                known = found.get(name, LeftOut(name, False))
                found[name] = LeftOut(name, nulls or known.nulls, others or known.others)
    return tuple(f for f in found.values() if f.nulls or f.others)


def _said(
    column: Column, domain: Domain, computed: Mapping[int, Expr], null: bool, other: bool
) -> Iterator[tuple[str, bool, Literal["values", "range", ""]]]:
    """What is said of a column; of one that holds what is computed of others, of those."""
    expr = computed.get(column.id)
    if expr is None:
        kind: Literal["values", "range"] = "values" if isinstance(domain, ValuesDomain) else "range"
        yield column.name, null, kind if other else ""
        return
    for c in references(expr):
        yield c.name, null and c.nullable and not c.nulls, "range" if other and c.bound.closed else ""


def _carries(expr: Expr, column: Column, domain: Domain | None, conditions: Sequence[Expr]) -> bool:
    """Whether a value is made of NULL, or (`domain`) of an undeclared value, of a column, in rows that satisfy the conditions."""
    match expr:
        case Ref(column=found):
            return found.id == column.id and not _kept_out(column, domain, conditions)
        case Case() if domain is None:
            return False  # NULL is a group of it
        case Call(op=op) if domain is None and operation(op).nulls is Nulls.ALL:
            return False
        case Case(whens=whens, default=default):
            arms = any(_carries(result, column, domain, (*conditions, *conjuncts(test))) for test, result in whens)
            return arms or (default is not None and _carries(default, column, domain, conditions))
        case Call() | InList() if expr.type == "bool":
            return False
        case _:
            return any(_carries(e, column, domain, conditions) for e in children(expr))


def _kept_out(column: Column, domain: Domain | None, conditions: Sequence[Expr]) -> bool:
    if domain is not None:
        return _limited(column, domain, conditions)
    return any(not_true(c, frozenset(r.id for r in references(c)) - {column.id}) for c in conditions)


def source(part: Part, key: Expr, speller: Speller) -> str:
    """Return the values of one key in its part: two measurements that have it in common show the same groups of it."""
    return speller.groups(replace(part, keys=((0, key),)).declared)
