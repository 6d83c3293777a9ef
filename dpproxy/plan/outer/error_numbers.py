"""Numbers of noise that are only known when the whole statement is planned: calls in the outer query that stand for them.

Knows: scales of noise, confidence, sqlglot's trees. Must not know: formulas, data. While a statement is bound it is not known how
its epsilon is divided: columns of half-widths and deviations hold calls of functions that nobody has, with the numbers of a
measurement and a basis as arguments. Once all scales are fixed each call gives way to its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import sqlglot
from sqlglot import exp

from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_error import CHOSEN, deviation, each, excess, normal_point, told_half
from dpproxy.sql.dialect import FaithfulPostgres, to_sql

HALF, DEVIATION, EXCESS, NORMAL = "dpproxy_half", "dpproxy_deviation", "dpproxy_excess", "dpproxy_normal"
TAU = "dpproxy_tau"
"""Names no client can call: the facade has no such functions, and it has parsed the client's text."""


def with_error_numbers(tree: exp.Expr, measurements: Sequence[Measurement], confidence: Fraction) -> exp.Expr:
    """Return the tree with every call of `HALF`, `DEVIATION`, `EXCESS` and `NORMAL` replaced by its number."""
    confidence = each(confidence)
    for node in list(tree.find_all(exp.Anonymous)):
        if node.this == NORMAL:
            stepped, among = (int(a.this) for a in node.expressions)
            failure = (1 - confidence) / among * (CHOSEN if stepped else 1)
            node.replace(exp.Literal.number(repr(normal_point(1 - failure))))
        elif node.this == TAU:
            threshold = measurements[int(node.expressions[0].this)].threshold
            node.replace(exp.Literal.number(threshold.tau if threshold is not None else 0))
        elif node.this in (HALF, DEVIATION, EXCESS):
            measurement, basis, *rest = (int(a.this) for a in node.expressions)
            known = measurements[measurement].bases[basis]
            if node.this == HALF:
                number = str(told_half(known, 1 - (1 - confidence) / rest[0], rest[1]))
            else:
                number = repr(deviation(known, rest[0]) if node.this == DEVIATION else excess(known, rest[0]))
            node.replace(exp.Literal.number(number))
    return tree


def text_with_error_numbers(sql: str, measurements: Sequence[Measurement], confidence: Fraction) -> str:
    """Do what `with_error_numbers` does, for SQL of ours as text."""
    if HALF not in sql and DEVIATION not in sql:
        return sql
    return to_sql(with_error_numbers(sqlglot.parse_one(sql, read=FaithfulPostgres), measurements, confidence))
