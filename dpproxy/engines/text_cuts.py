"""Texts that are too long for functions that may need several bytes for one.

Knows: rows of the catalogue, lengths. Must not know: tables, measurements. Where longer texts are made of shorter ones, columns
are cut (`engines.base.Engine.grown`) to the length with which `plan.measure.amplification` found the whole measurement to stay
within its limits. Functions that need several bytes for one are not computed of texts beyond a length.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.plan.operations.catalogue import operation
from dpproxy.plan.operations.lengths import MOST
from dpproxy.sql.types import TEXTS
from dpproxy.tree.expr import Call, Cast, Expr, Hole, Lit

LONG = 100_000_000  # bytes of a text that such functions are given: they may take eight for one, and raise beyond 1 GB


def null_beyond_limit(body: str, args: Sequence[Expr], texts: Sequence[object]) -> str:
    """NULL where an argument, of the texts given, is too long for it to be computed."""
    long = [f"{text}" for arg, text in zip(args, texts, strict=True) if not _known_short(arg)]
    if not long:
        return body
    return f"(CASE WHEN {' AND '.join(f'octet_length({text}) <= {LONG}' for text in long)} THEN {body} END)"


def _known_short(arg: Expr) -> bool:
    """Whether a text is at most `LONG` whatever the data: a constant, formatted, guarded, or a part of such a one."""
    match arg:
        case Lit() | Hole():
            return True
        case Cast(arg=inner):
            return inner.type not in (*TEXTS, "unknown") or _known_short(inner)
        case Call(op=op, args=args):
            row = operation(op)
            if row.part:
                return _known_short(args[0])
            return row.widens or row.grows or (row.length is not None and row.length([MOST] * len(args), args) < LONG)
    return False
