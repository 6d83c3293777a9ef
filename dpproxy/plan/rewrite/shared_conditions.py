"""A rule: what all branches of an OR share, written beside it.

Knows: sqlglot's trees, before they are analysed. Must not know: engines. People and generators write a join's condition in each
branch (TPC-H 19, TPC-DS 13 and 48): `a.id = b.id AND a.x = 1 OR a.id = b.id AND a.x = 2`. What is true of every row is then found
nowhere. AND distributes over OR with NULL as well: `p AND q OR p AND r` is `p AND (q OR r)`, and `p OR p AND q` is `p`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from sqlglot import exp

from dpproxy.plan.known_tables import KnownTables
from dpproxy.sql.nodes import every


def apply(tree: exp.Expr, tables: KnownTables) -> bool:
    """Add conditions that branches of OR share to WHERE and ON; whether there were any.

    Before: `SELECT count(*) FROM a, b WHERE (a.id = b.id AND a.x = 1) OR (b.id = a.id AND b.y = 2)`
    After: `SELECT count(*) FROM a, b WHERE a.id = b.id AND (a.x = 1 OR b.y = 2)`
    """
    whole = [where.this for where in every(tree, exp.Where) if isinstance(where.parent, exp.Select)]
    whole += [join.args["on"] for join in every(tree, exp.Join) if join.args.get("on") is not None]
    found = [(either, made) for condition in whole for either in _alternatives(condition) if (made := _apart(either)) is not None]
    for either, made in found:
        written: exp.Expr = either
        while isinstance(written.parent, exp.Paren):
            written = written.parent
        written.replace(made)
    return bool(found)


def _alternatives(condition: exp.Expr) -> list[exp.Or]:
    """The ORs that must hold of every row."""
    return [part for one in _parts(condition, exp.And) if isinstance(part := one.unnest(), exp.Or)]


def _apart(either: exp.Or) -> exp.Expr | None:
    """A condition with what all branches of its OR share in front; None where they share nothing."""
    branches = [_parts(branch, exp.And) for branch in _parts(either, exp.Or)]
    first, *others = branches
    shared = [part for part in first if all(_among(part, other) for other in others)]
    if not shared:
        return None
    rests = [[part for part in branch if not _among(part, shared)] for branch in branches]
    if not all(rests):
        return _together(exp.And, shared)
    rest = _together(exp.Or, [exp.paren(_together(exp.And, one)) if len(one) > 1 else _together(exp.And, one) for one in rests])
    return _together(exp.And, [*shared, exp.paren(rest)])


def _parts(condition: exp.Expr, kind: type[exp.Connector]) -> list[exp.Expr]:
    """What a chain of ANDs, or of ORs, connects, whatever brackets there are."""
    inner = condition.unnest()
    return [*_parts(inner.this, kind), *_parts(inner.expression, kind)] if isinstance(inner, kind) else [inner]


def _among(part: exp.Expr, others: Sequence[exp.Expr]) -> bool:
    """Whether a condition is one of the others, an equation either way round."""
    turned = exp.EQ(this=part.expression.copy(), expression=part.this.copy()) if isinstance(part, exp.EQ) else part
    return any(other in (part, turned) for other in others)


def _together(kind: type[exp.Connector], parts: Sequence[exp.Expr]) -> exp.Expr:
    return reduce(lambda a, b: kind(this=a, expression=b), [part.copy() for part in parts])
