"""Arithmetic in PostgreSQL, total: which kind of number an expression computes in, and where its leaves are guarded.

Knows: the planner's expressions, the reach of numbers. Must not know: tables, measurements. Whole numbers compute as
bigint where their span allows, else as numeric (exact); NUMERIC computes as numeric, floats as float8. A tree of
arithmetic is rendered as one: leaves of unknown size are guarded so that no node of it can raise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from dpproxy.engines import postgres_reach as reach
from dpproxy.engines.base import Names, check_number
from dpproxy.engines.postgres_reach import INT64, Kind, Reach, TooFar
from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.plan.properties.facts import facts, literal_number
from dpproxy.sql.types import FLOATS, INTEGERS, NUMBERS
from dpproxy.tree.expr import Call, Case, Cast, Expr, Lit, Ref, Scalar

ARITHMETIC = {"+", "-", "*", "/", "int/", "%", "neg", "abs", "square"}
HELD = "limit"
"""The planner's own operation around subqueries: a number held within a power of ten."""
_CHOICES = {"coalesce", "least", "greatest"}
_ROUNDING = {"floor", "ceil"}


class Speller(Protocol):
    """Arithmetic needs this of the engine."""

    def expr(self, expr: Expr, names: Names) -> str: ...


def number_kind(expr: Expr) -> Kind:
    """The kind of number an expression of a numeric type is rendered as."""
    if expr.type not in INTEGERS:
        return "float8" if expr.type in FLOATS else "numeric"
    match expr:
        case Call(op=op, args=args) if op in ARITHMETIC:
            wide = not facts(expr).span.within(INT64)
            return "numeric" if wide or any(number_kind(a) != "bigint" for a in args) else "bigint"
        case Call(op=op, args=args) if op in _CHOICES:
            return _widest(args)
        case Call(op="nullif", args=args):
            return number_kind(args[0])
        case Scalar(value=value):
            return number_kind(value)
        case Case(whens=whens, default=default):
            return _widest((*(r for _, r in whens), *((default,) if default is not None else ())))
    return "bigint"


def _widest(args: tuple[Expr, ...]) -> Kind:
    return "numeric" if any(a.type in INTEGERS and number_kind(a) != "bigint" for a in args) else "bigint"


def number_literal(kind_: Kind, text: str) -> str:
    """Spell a number as a constant of a kind; beyond float8 it is an infinity."""
    if kind_ == "bigint" and abs(int(text)) > INT64:
        kind_ = "numeric"
    if kind_ == "float8":
        value = float(text)
        text = "Infinity" if value > 1.7e308 else "-Infinity" if value < -1.7e308 else repr(value)
    return f"'{text}'::{kind_}"


def converted_number(text: str, source: Kind, target: Kind) -> str:
    if source == target:
        return text
    return reach.narrowed(text) if (source, target) == ("numeric", "float8") else f"{text}::{target}"


class Arithmetic:
    """Renders numbers for one engine."""

    def __init__(self, speller: Speller) -> None:
        self._speller = speller

    def number(self, expr: Expr, names: Names, wanted: Kind) -> str:
        """Spell `expr` as a kind of number; never narrower than its own. Raises Refusal."""
        check_number(expr)
        if isinstance(expr, Lit) and expr.text is not None:
            return number_literal(wanted, expr.text)
        text = self._speller.expr(expr, names)
        own = number_kind(expr)
        if own == wanted and expr.type not in ("int2", "int4", "float4"):
            return text
        return f"{text}::{wanted}" if own == wanted else converted_number(text, own, wanted)

    def operation(self, expr: Call, names: Names) -> str:
        """Spell an arithmetic operation. Raises Refusal when no guard keeps it within what PostgreSQL computes."""
        own = number_kind(expr)
        for leaf in reach.LEAVES[own]:
            try:
                return self._tree(expr, names, own, leaf)[0]
            except TooFar:
                continue
        raise Refusal(STATEMENT_TOO_COMPLEX, "this product has too many factors", hint="Compute it in an outer query.")

    def limited(self, expr: Expr, names: Names, leaf: int) -> str:
        """Spell a number, as its own kind, held within 10**leaf: what sums and squares of it need in order not to raise."""
        try:
            return self._tree(expr, names, number_kind(expr), leaf)[0]
        except TooFar:
            return reach.guarded(self._speller.expr(expr, names), number_kind(expr), leaf)[0]

    def _tree(self, expr: Expr, names: Names, as_: Kind, leaf: int, tiny: bool = False) -> tuple[str, Reach]:
        """Text and reach of `expr` as kind `as_`. `tiny`: a leaf may be tinier than its reach says. Raises TooFar."""
        if isinstance(expr, Lit) and expr.text is not None:
            value = literal_number(expr.type, expr.text)
            return number_literal(as_, expr.text), reach.of_constant(value) if value is not None else Reach(leaf, leaf)
        own = number_kind(expr)
        if own != as_:
            return self._changed(expr, names, own, as_, leaf)
        match expr:
            case Call(op=op) if op in ARITHMETIC | _CHOICES | _ROUNDING:
                return self._call(expr, names, as_, leaf)
            case Case(whens=whens, default=default):
                parts = [self._tree(e, names, as_, leaf) for e in (*(r for _, r in whens), *((default,) if default else ()))]
                arms = [f"WHEN {self._speller.expr(t, names)} THEN {p[0]}" for (t, _), p in zip(whens, parts, strict=False)]
                other = f" ELSE {parts[-1][0]}" if default is not None else ""
                return f"(CASE {' '.join(arms)}{other} END)", reach.hull([p[1] for p in parts])
            case Cast(arg=arg, length=()) if arg.type in NUMBERS and expr.type in ("numeric", "float8"):
                return self._tree(arg, names, as_, leaf)
        if as_ == "bigint":
            return self.number(expr, names, as_), reach.WHOLE
        if isinstance(expr, Scalar):  # guarded inside, or it would run three times
            inner = Call(expr.value.type, HELD, (expr.value, Lit("int4", str(leaf))))
            size = Reach(leaf, leaf) if as_ == "float8" else Reach(reach.SCALE, leaf)
            return self._speller.expr(replace(expr, value=inner), names), size
        return reach.guarded(self.number(expr, names, as_), as_, leaf, tiny)

    def _changed(self, expr: Expr, names: Names, own: Kind, as_: Kind, leaf: int) -> tuple[str, Reach]:
        if own == "bigint":
            return self.number(expr, names, as_), reach.WHOLE
        if isinstance(expr, Ref):
            return reach.guarded(self.number(expr, names, as_), as_, leaf)
        inner, size = self._tree(expr, names, own, min(leaf, reach.LEAVES[own][0]))
        if own == "numeric" and as_ == "float8":
            return reach.narrowed(inner), reach.NARROW
        return f"{inner}::{as_}", Reach(size.low, max(size.high, reach.DIGITS)).within(as_)

    def _call(self, expr: Call, names: Names, as_: Kind, leaf: int) -> tuple[str, Reach]:
        anchor = _anchor(expr) if as_ == "float8" else None
        parts = [self._tree(a, names, as_, leaf, anchor is not None) for a in expr.args]
        texts, sizes = [p[0] for p in parts], [p[1] for p in parts]
        match expr.op:
            case _ if anchor is not None:
                return f"({texts[0]} {expr.op} {texts[1]})", reach.anchored(sizes[anchor], sizes[1 - anchor])
            case "neg":
                return f"(-{texts[0]})", sizes[0]
            case "abs":
                return f"abs({texts[0]})", sizes[0]
            case "floor" | "ceil":
                return f"{expr.op}({texts[0]})", Reach(0, sizes[0].high + 1).within(as_)
            case "coalesce" | "least" | "greatest":
                return f"{expr.op}({', '.join(texts)})", reach.hull(sizes)
            case "square":
                return f"({texts[0]} * {texts[0]})", reach.combined("*", as_, sizes[0], sizes[0])
            case "int/" if as_ == "numeric":
                return f"div({texts[0]}, NULLIF({texts[1]}, 0))", reach.combined("int/", as_, *sizes)
            case "/" if as_ == "numeric":
                a, b = (_plain(*pair) for pair in zip(texts, expr.args, strict=True))
                return f"({a} / NULLIF({b}, 0))", reach.combined("/", as_, *sizes)
            case "/" | "int/" | "%":
                sign = "%" if expr.op == "%" else "/"
                return f"({texts[0]} {sign} NULLIF({texts[1]}, 0))", reach.combined(expr.op, as_, *sizes)
        return f"({texts[0]} {expr.op} {texts[1]})", reach.combined(expr.op, as_, *sizes)


def _plain(text: str, operand: Expr) -> str:
    """An operand of a division: its digits decide how many the quotient has, and 1.0 and 1.00 must have one quotient."""
    return text if isinstance(operand, Lit) or operand.type in INTEGERS else f"trim_scale({text})"


def _anchor(expr: Call) -> int | None:
    """Which operand of a sum or difference is a constant other than 0."""
    if expr.op not in ("+", "-") or len(expr.args) != 2:
        return None
    values = [literal_number(a.type, a.text) if isinstance(a, Lit) and a.text is not None else None for a in expr.args]
    return next((i for i, value in enumerate(values) if value), None)
