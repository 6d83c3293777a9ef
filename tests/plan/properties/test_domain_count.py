"""Groups counted by trying: as many as an engine lists, and never fewer."""

from __future__ import annotations

from itertools import product

import pytest
from small_expressions import call, column, lit, ref

from dpproxy.plan.properties import domain_count
from dpproxy.plan.properties.domain_count import MAX_TRIED, groups_of
from dpproxy.tree.expr import Case, Column, Expr, InList, Lit, SeriesDomain, ValuesDomain
from dpproxy.tree.measured import DeclaredPart, Strays
from dpproxy.tree.relation import Public, Scan, Values

WORDS = ("a", "b", "c", None)
WORD = Column(1, "word", "text", domain=ValuesDomain(WORDS))
OTHER = Column(2, "other", "text", domain=ValuesDomain(WORDS))
SIZE = Column(3, "size", "int4", domain=SeriesDomain(0, 9, "int"))
DAY = Column(4, "day", "date", domain=SeriesDomain(0, 58, "day"))
MONTH = Column(5, "month", "timestamp", domain=SeriesDomain(0, 23, "month"))
TWO = [WORD, OTHER]


def part(keys: list[Expr], columns: list[Column], *conditions: Expr) -> DeclaredPart:
    declared = tuple((c, c.domain) for c in columns if c.domain is not None)
    return DeclaredPart(tuple(enumerate(keys)), declared, (), conditions)


@pytest.mark.parametrize(
    ("condition", "test"),
    [
        (call("=", ref(WORD), ref(OTHER)), lambda a, b: None not in (a, b) and a == b),
        (call("<>", ref(WORD), ref(OTHER)), lambda a, b: None not in (a, b) and a != b),
        (call("is_null", ref(WORD)), lambda a, _: a is None),
        (
            call("or", call("=", ref(WORD), lit("a", "text")), call("=", ref(OTHER), lit("b", "text"))),
            lambda a, b: a == "a" or b == "b",
        ),
        (call("not", call("=", ref(WORD), lit("a", "text"))), lambda a, _: a not in ("a", None)),
        (InList("bool", ref(WORD), (lit("a", "text"), lit("c", "text"))), lambda a, _: a in ("a", "c")),
        (Case("bool", ((call("is_null", ref(WORD)), Lit("bool", "false")),), Lit("bool", "true")), lambda a, _: a is not None),
    ],
)
def test_conditions_over_words(condition: Expr, test: object) -> None:
    assert callable(test)
    expected = sum(bool(test(a, b)) for a, b in product(WORDS, WORDS))
    assert groups_of(part([ref(WORD), ref(OTHER)], TWO, condition)) == expected
    keyed = {a for a, b in product(WORDS, WORDS) if test(a, b)}
    assert groups_of(part([ref(WORD)], TWO, condition)) == len(keyed)


def test_numbers_and_times_are_computed() -> None:
    assert groups_of(part([ref(WORD), ref(SIZE)], [WORD, SIZE], call("<", ref(SIZE), lit("3")))) == 4 * 3
    later = call(">=", ref(MONTH), lit("1971-01-01 00:00:00", "timestamp"))
    year = call("trunc_time", lit("year", "text"), ref(MONTH), type_="timestamp")
    assert groups_of(part([year, ref(SIZE)], [MONTH, SIZE], later)) == 1 * 10
    assert groups_of(part([call("month", ref(DAY), type_="int8")], [DAY])) == 2


def test_what_is_not_known_may_hold() -> None:
    """Which text is greater is the database's to say; a parameter is not known; a key that is not known ends the count."""
    assert groups_of(part([ref(WORD), ref(OTHER)], TWO, call("<", ref(WORD), ref(OTHER)))) == 9, "none of them NULL"
    assert groups_of(part([call("upper", ref(WORD), type_="text")], [WORD])) is None


def test_strays_and_lists_of_constants_are_sources() -> None:
    flag = Column(9, "stray", "bool")
    stray = Strays(WORD, flag, (), (("zz",),))
    declared = DeclaredPart(((0, ref(WORD)),), ((WORD, ValuesDomain(("a", "b"))),), (), (), (stray,))
    assert groups_of(declared) == 3
    values = Values((column(7), column(8)), ((lit("1"), lit("2")), (lit("1"), lit("3"))))
    listed = Public(values.columns, 1, values)
    assert groups_of(DeclaredPart(((0, ref(column(7))),), (), (listed,), ())) == 1
    assert groups_of(DeclaredPart(((0, ref(column(8))),), (), (listed,), ())) == 2
    assert groups_of(DeclaredPart(((0, ref(column(7))),), (), (Scan(values.columns, 1, ("main", "t"), ("a", "b")),), ())) is None


def test_too_much_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_TRIED >= 576, "months beside months"
    monkeypatch.setattr(domain_count, "MAX_TRIED", 15)
    assert groups_of(part([ref(WORD), ref(OTHER)], TWO)) is None
    assert groups_of(part([ref(WORD), ref(OTHER)], TWO, call("=", ref(WORD), lit("a", "text")))) == 4, "what is left after each"
