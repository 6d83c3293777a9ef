"""Constants whose type the text of a statement leaves open, and constants that must be known before it runs.

Knows: PostgreSQL's input syntax as far as it is plain (ISO times, digits, the words for true and false). Must not know:
functions, engines, the facade. A string constant has no type of its own in PostgreSQL: it takes the type that its neighbour
asks for. What is spelled otherwise than plainly is not guessed at here (`NotPlain`): the binder has the facade evaluate it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

from dpproxy.plan.operations.interval_texts import interval_text
from dpproxy.plan.refusals import CONSTANT, OTHER_ARGUMENTS, OTHER_TYPE, unsupported
from dpproxy.sql.settings import boolean
from dpproxy.sql.types import FLOATS, INTEGERS, TEXTS
from dpproxy.tree.expr import Expr, Hole, Lit


def literal_text(expr: Expr, what: str) -> str:
    """Return the text of a constant argument that must be known before the statement runs."""
    if isinstance(expr, Lit) and expr.text is not None:
        return expr.text
    raise unsupported(f"{what} that is not a constant", CONSTANT)


def coerce(expr: Expr, type_: str) -> Expr:
    """Give a constant of unknown type the type its neighbour asks for."""
    if isinstance(expr, Lit) and expr.type == "unknown":
        return typed_literal(type_, expr.text)
    if isinstance(expr, Hole) and expr.type == "unknown":
        return Hole(type_, expr.index)
    return expr


def typed_literal(type_: str, text: str | None) -> Expr:
    """Return a string constant as a value of a type. Raises Refusal when it is not plain ISO (the binder then asks the
    facade)."""
    if text is None or type_ in TEXTS or type_ in ("unknown", "uuid"):
        return Lit(type_, text)
    value = text.strip()
    try:
        if type_ in INTEGERS:
            return Lit(type_, str(int(value)))
        if type_ in ("numeric", *FLOATS):
            if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", value):
                raise ValueError(value)
            return Lit(type_, value)
        if type_ == "bool":
            said = boolean(value)
            if said is None:
                raise ValueError(value)
            return Lit(type_, "true" if said else "false")
        if type_ == "date":
            return Lit(type_, dt.date.fromisoformat(value[:10] if _midnight(value) else value).isoformat())
        if type_ in ("timestamp", "timestamptz"):
            stamp = dt.datetime.fromisoformat(value)
            if stamp.tzinfo is not None and type_ == "timestamptz":
                raise ValueError(value)
            return Lit(type_, stamp.replace(tzinfo=None).isoformat(sep=" "))
        if type_ == "interval":
            return Lit(type_, interval_text(value))
        if type_ == "time" and re.fullmatch(r"\d\d:\d\d(:\d\d(\.\d{1,6})?)?", value):
            return Lit(type_, dt.time.fromisoformat(value).isoformat())
    except (ValueError, KeyError):
        pass
    raise NotPlain(type_, text)


class NotPlain(Exception):
    """Only PostgreSQL can read the spelling of a constant ('Jan 5, 2024', 'yesterday'): the facade is asked."""

    def __init__(self, type_: str, text: str) -> None:
        super().__init__(type_)
        self.type, self.text = type_, text


def _midnight(value: str) -> bool:
    return bool(re.fullmatch(r"\d{4}-\d{2}-\d{2}[ T]00:00(:00(\.0+)?)?", value))


def as_text(value: Expr, what: str) -> Expr:
    value = coerce(value, "text")
    if value.type not in TEXTS:
        raise unsupported(f"{what} of {value.type}", OTHER_TYPE)
    return value


def check_count(name: str, args: Sequence[Expr], *counts: int) -> None:
    """Raise Refusal unless the function has one of these numbers of arguments."""
    if len(args) not in counts:
        raise unsupported(f"`{name}` with {len(args)} arguments", OTHER_ARGUMENTS)


_DIGITS = 1000
"""Python makes no whole number of more than 4,300 digits; longer ones are `numeric` in any case, as texts of numbers are."""


def number_literal(text: str) -> Expr:
    """Bind an unsigned number of SQL text: int4, int8 or numeric, as PostgreSQL types it."""
    if text.isdigit() and len(text) <= _DIGITS:
        value = int(text)
        return Lit("int4" if value < 2**31 else "int8" if value < 2**63 else "numeric", str(value))
    return typed_literal("numeric", text)
