"""Fields read from a tree: the value, or one problem that says what is there and what to write."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from dpproxy.policy.key_types import Key, Shape
from dpproxy.policy.reader import Reader, kind
from dpproxy.policy.tree import Mapping, Node, parse

SHAPE = Shape(title="a thing", keys={"one": Key("The first.", required=True), "two": Key("The second.")})
Read = Callable[[Reader, Node], Any]


def node(text: str) -> Node:
    tree = parse(f"x: {text}", "p.yaml")
    assert isinstance(tree, Mapping)
    return tree.entries["x"]


READS: list[tuple[Read, str, Any]] = [
    (lambda r, n: r.text(n, "a name"), "abc", "abc"),
    (lambda r, n: r.text(n, "a name"), '""', "a name must be text, not empty"),
    (lambda r, n: r.text(n, "a name"), "", "a name must be text, not nothing"),
    (lambda r, n: r.text(n, "a name"), "[a]", "a name must be text, not a list"),
    (lambda r, n: r.text(n, "a name"), "x${env:SECRET}", "a reference is not allowed in a name"),
    (lambda r, n: r.choice(n, "`every`", ("day", "week")), "week", "week"),
    (lambda r, n: r.choice(n, "`every`", ("day", "week")), "{}", "`every` cannot be a mapping"),
    (lambda r, n: r.flag(n, "public"), "true", True),
    (lambda r, n: r.flag(n, "public"), "false", False),
    (lambda r, n: r.flag(n, "public"), "yes", "`public` must be true or false, not `yes`"),
    (lambda r, n: r.integer(n, "rows", 1, 9), "9", 9),
    (lambda r, n: r.integer(n, "rows", 1, 9), "10", "`rows` is out of range: 10"),
    (lambda r, n: r.integer(n, "rows", 1, 9), "0", "`rows` is out of range: 0"),
    (lambda r, n: r.integer(n, "rows", 1, 9), "1.5", "`rows` must be a whole number, not `1.5`"),
    (lambda r, n: r.integer(n, "rows", 1, 9), '"1"', "`rows` must be a whole number, not quoted text"),
    (lambda r, n: r.decimal(n, "epsilon"), "1e-6", Decimal("0.000001")),
    (lambda r, n: r.decimal(n, "epsilon"), "much", "`epsilon` must be a number, not `much`"),
    (lambda r, n: r.items(n, "values"), "1", "`values` must be a list, not `1`"),
    (lambda r, n: r.mapping(n, SHAPE), "1", "a thing must be a mapping, not `1`"),
    (lambda r, n: r.mapping(n, SHAPE), "{ two: 1 }", "a thing has no `one`"),
    (lambda r, n: sorted(r.mapping(n, SHAPE) or ()), "{ one: 1, two: 2 }", ["one", "two"]),
    (lambda r, n: r.mapping(n, SHAPE), "{ one: 1, tow: 2 }", "unknown key `tow` in a thing"),
    (lambda r, n: r.named(n, "`tables`"), "[]", "`tables` must be a mapping, not a list"),
]


@pytest.mark.parametrize(("read", "text", "expected"), READS)
def test_a_value_or_one_problem(read: Read, text: str, expected: Any) -> None:
    reader = Reader("p.yaml")
    value = read(reader, node(text))
    if isinstance(expected, str) and " " in expected:
        (problem,) = reader.problems
        assert problem.what == expected
        assert (problem.file, problem.line) == ("p.yaml", 1)
        assert problem.fix
    else:
        assert (value, reader.problems) == (expected, [])


def test_reading_goes_on_with_the_keys_that_are_known() -> None:
    reader = Reader("p.yaml")
    assert set(reader.mapping(node("{ one: 1, tow: 2 }"), SHAPE) or ()) == {"one"}
    assert reader.problems[0].fix == "did you mean `two`?"


def test_long_values_are_cut_and_quoted_ones_not_shown() -> None:
    assert kind(node("x" * 100)) == f"`{'x' * 40}`"
    assert kind(node('"secret"')) == "quoted text"
