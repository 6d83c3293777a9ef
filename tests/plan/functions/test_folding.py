"""Constants are computed as PostgreSQL computes them, or left alone."""

from __future__ import annotations

import pytest

from dpproxy.plan.functions.folding import folded_constants
from dpproxy.plan.logical.expr import Lit


@pytest.mark.parametrize(
    ("op", "a", "b", "found"),
    [
        ("+", Lit("numeric", "0.06"), Lit("numeric", "0.01"), Lit("numeric", "0.07")),
        ("-", Lit("numeric", "0.06"), Lit("numeric", "0.01"), Lit("numeric", "0.05")),
        ("*", Lit("int4", "3"), Lit("numeric", "1.10"), Lit("numeric", "3.30")),
        ("+", Lit("int4", "1200"), Lit("int4", "11"), Lit("int4", "1211")),
        ("+", Lit("int4", "2147483647"), Lit("int4", "1"), None),
        ("+", Lit("float8", "0.06"), Lit("float8", "0.01"), None),
        ("/", Lit("numeric", "1"), Lit("numeric", "3"), None),
        ("+", Lit("numeric", None), Lit("numeric", "1"), None),
        ("*", Lit("numeric", "NaN"), Lit("numeric", "1"), None),
        ("*", Lit("numeric", "9" * 60), Lit("numeric", "9" * 60), None),
    ],
)
def test_folded(op: str, a: Lit, b: Lit, found: Lit | None) -> None:
    assert folded_constants(op, a, b) == found
