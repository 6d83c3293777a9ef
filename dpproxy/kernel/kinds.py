"""Of what kind values are, and whether operations are given what they take.

Knows: PostgreSQL's types, the lists of `allowed`. Must not know: whose values they are. Lemma: an expression that this takes is
total, for each of its operations is given operands of kinds that it is total for, and constants where it is total for some alone.
By induction over the expression; what a column holds is of its own kind (`kernel.columns`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from re import Pattern

from dpproxy.kernel.allowed import AGGREGATES, CASTS, CONSTANT, OPERATIONS, WINDOWS
from dpproxy.kernel.constants import number, total
from dpproxy.kernel.leaves import Unproven
from dpproxy.tree.expr import Agg, Call, Case, Cast, Expr, Hole, Lit, Win

_KINDS = {
    "int2": "i", "int4": "i", "int8": "i", "numeric": "n", "float4": "f", "float8": "f", "bool": "b", "date": "d", "time": "c",
    "text": "t", "varchar": "t", "bpchar": "t", "name": "t", "unknown": "t", "timestamp": "p", "timestamptz": "p",
    "interval": "v", "uuid": "u", "record": "r",
}  # fmt: skip
_WIDTH = {"int2": 0, "int4": 1, "int8": 2, "numeric": 3, "float4": 4, "float8": 5}
_COMPARED = {"i": "inf", "n": "inf", "f": "inf", "d": "dp", "p": "dp", "t": "t", "b": "b", "c": "c", "v": "v", "u": "u"}


def kind(type_: str) -> str:
    return _KINDS.get(type_, "x")


@lru_cache(4096)
def _takes(list_: str, name: str, result: str, operands: tuple[str, ...]) -> bool:
    pattern = _LISTS[list_].get(name)
    return pattern is not None and pattern.fullmatch(f"{''.join(map(kind, operands))}>{kind(result)}") is not None


_LISTS: Mapping[str, Mapping[str, Pattern[str]]] = {"call": OPERATIONS, "aggregate": AGGREGATES, "window": WINDOWS}


def becomes(source: str, target: str) -> bool:
    """Tell whether a value of one type stands where another is wanted: one that is no narrower."""
    if source in _WIDTH and target in _WIDTH:
        return _WIDTH[source] <= _WIDTH[target]
    return source == target if kind(source) == "x" else kind(source) == kind(target) or (kind(source), kind(target)) == ("d", "p")


def check_call(call: Call) -> None:
    op, args = call.op, call.args
    if not _takes("call", op, call.type, tuple([a.type for a in args])):
        raise Unproven(f"`{op}` of these kinds is not on the list of total operations")
    if op in CONSTANT:
        _check_constants(op, args)
    if op in ("like", "ilike") and isinstance(args[1], Lit) and args[1].text is not None and not closed(*args[1:]):
        raise Unproven("a pattern ends in what is to take its next letter as it is")


def closed(pattern: Expr, mark: Expr | None = None) -> bool:
    """Tell whether a constant pattern of LIKE ends with no escape of its own."""
    text = (pattern.text or "") if isinstance(pattern, Lit) else ""
    escape = (mark.text or "") if isinstance(mark, Lit) else "\\"
    return not escape or (len(text) - len(text.rstrip(escape))) % 2 == 0


def _check_constants(name: str, args: Sequence[Expr]) -> None:
    found = [args[i] for i in CONSTANT[name] if i < len(args)]
    texts = tuple([a.text for a in found if isinstance(a, Lit) and a.text is not None])
    if len(texts) < len(found) or (texts and not total(name, texts)):
        raise Unproven(f"`{name}` is total for some constants alone, and this is none of them")


def check_cast(cast: Cast) -> None:
    if kind(cast.type) not in CASTS.get(kind(cast.arg.type), ""):
        raise Unproven(f"a cast of {cast.arg.type} to {cast.type} is not on the list of total casts")


def check_case(case: Case) -> None:
    results = [*(value for _, value in case.whens), *([case.default] if case.default is not None else [])]
    if any(test.type != "bool" for test, _ in case.whens) or not all(becomes(r.type, case.type) for r in results):
        raise Unproven("CASE of conditions that are none, or of values of another kind")


def check_pair(a: Expr, b: Expr) -> None:
    """Raise Unproven for what an engine would cast to compare it. A parameter may stand for a list."""
    other = b.type.removesuffix("[]") if isinstance(b, Hole) else b.type
    if kind(other) not in _COMPARED.get(kind(a.type), ""):
        raise Unproven(f"{a.type} is compared with {other}")


def check_number(value: Expr | None) -> None:
    """Raise Unproven for what is no number, and is to be held within bounds."""
    if value is None or kind(value.type) not in "inf":
        raise Unproven("a value is held within bounds that is no number")


def check_literal(literal: Lit) -> None:
    if literal.text is not None and literal.type in _WIDTH and not number(literal.type, literal.text):
        raise Unproven("a number that is none of its type")


def check_aggregate(agg: Agg) -> None:
    if not _takes("aggregate", agg.name, agg.type, tuple([a.type for a in agg.args])) or agg.fractions:
        raise Unproven("this is no aggregate of one unit's rows")


def check_window(win: Win) -> None:
    if not _takes("window", win.name, win.type, tuple([a.type for a in win.args])):
        raise Unproven(f"window function {win.name} of these kinds")
    if win.name in ("lag", "lead") and not all(becomes(a.type, win.type) for a in (win.args[0], *win.args[2:])):
        raise Unproven("a row that is not there has a value of another kind")
    if win.name in CONSTANT:
        _check_constants(win.name, win.args)
