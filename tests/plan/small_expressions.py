"""Columns and calls in short, for tests of what is known of expressions: an expression by its operator and arguments."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from dpproxy.tree.expr import Call, Column, Expr, Lit, Ref
from dpproxy.tree.interval import OPEN, Interval


def column(id_: int, type_: str = "int4", lo: int | None = None, hi: int | None = None, **known: Any) -> Column:
    bound = OPEN if lo is None and hi is None else between(lo, hi)
    return Column(id_, f"c{id_}", type_, bound, **known)


def between(lo: int | None, hi: int | None) -> Interval:
    return Interval(None if lo is None else Fraction(lo), None if hi is None else Fraction(hi))


def ref(given: Column) -> Ref:
    return Ref(given.type, given)


def lit(text: str | None, type_: str = "int4") -> Lit:
    return Lit(type_, text)


def call(op: str, *args: Expr, type_: str = "bool") -> Call:
    return Call(type_, op, args)


def same(a: Column, b: Column) -> Call:
    return call("=", ref(a), ref(b))
