"""How large a statement gets when each CTE is put where it is read, found before anything is.

Knows: names of CTEs, trees. Must not know: policies, privacy. A CTE over private rows is analysed where it is read, so one that
reads another twice, which reads another twice, doubles with every line; and a chain of them is a recursion as deep. Both are
added up here in one walk, with each CTE looked at once, and refused in milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.plan.context import MAX_SCANS
from dpproxy.sql.dialect import ident, position

MAX_DEPTH = 40
"""SELECTs within SELECTs, CTEs that are read in between counted. Each is some 20 Python frames, of 1,000."""

MAX_ITEMS = 64
"""Items of one FROM: what joins do grows with the square of their number."""

FAR = 10**9


@dataclass(frozen=True)
class Size:
    """A query reads tables and holds queries. `scans`: tables read; `depth`: queries within queries."""

    scans: int = 0
    depth: int = 0


def check(tree: exp.Expr) -> None:
    """Raise Refusal 54001 for a statement that would read tables too often, or is nested too deeply."""
    size = _size(tree, {})
    if size.depth > MAX_DEPTH:
        raise Refusal(
            STATEMENT_TOO_COMPLEX, "statement is nested too deeply", hint="Split it, or let fewer CTEs read each other."
        )
    if size.scans > MAX_SCANS:
        raise Refusal(STATEMENT_TOO_COMPLEX, f"statement reads tables more than {MAX_SCANS} times", hint="Split it.")


def _size(node: exp.Expr, known: Mapping[str, Size]) -> Size:
    """Of a query or anything in it. `known`: CTEs in scope."""
    clause = node.args.get("with_")
    if clause is not None:
        inside = dict(known)
        for cte in clause.expressions:
            name = ident(cte.args["alias"].this)
            inside[name] = _size(cte.this, {**inside, name: Size()})  # what a recursive one reads of itself is no more
        known = inside
    if isinstance(node, exp.Select) and len(node.args.get("joins") or ()) >= MAX_ITEMS:
        raise Refusal(STATEMENT_TOO_COMPLEX, f"FROM has more than {MAX_ITEMS} items", position(node), hint="Split the statement.")
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        own = Size(1, 0)
        if not node.args.get("db"):
            own = known.get(ident(node.this), own)
        return _joined(own, [_size(c, known) for c in _parts(node)], 0)
    return _joined(Size(), [_size(c, known) for c in _parts(node)], int(isinstance(node, exp.Select)))


def _parts(node: exp.Expr) -> list[exp.Expr]:
    return [child for child in node.iter_expressions() if child.arg_key != "with_"]


def _joined(own: Size, parts: list[Size], level: int) -> Size:
    scans = min(own.scans + sum(p.scans for p in parts), FAR)
    return Size(scans, max([own.depth, *(p.depth for p in parts)]) + level)
