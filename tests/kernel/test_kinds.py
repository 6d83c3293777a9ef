"""Operations, aggregates, windows and casts of every kind that the kernel takes: each is run on hostile values, and none fails.

What is not of a kind that it takes is refused. The trees are generated from the lists alone, whatever a planner makes of them.
"""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from typing import Any

import duckdb
import psycopg
import pytest
from small_expressions import call, column, lit, ref

from dpproxy.engines import engine as engine_of
from dpproxy.errors import Refusal
from dpproxy.kernel import kinds
from dpproxy.kernel.allowed import AGGREGATES, CASTS, CONSTANT, OPERATIONS, WINDOWS
from dpproxy.kernel.leaves import Unproven
from dpproxy.sql.template import Dialect
from dpproxy.tree.expr import Agg, Call, Case, Cast, Column, Expr, Hole, InList, Lit, Ref, Win, children
from tests.kernel.hostile_values import COLUMNS, OTHERS, names, statements

TYPES = tuple(COLUMNS)
PLAIN = ("int8", "numeric", "float8", "text", "bool", "date", "timestamp", "interval", "time", "uuid")
"""One of each kind, of which long lists of operands are made."""
TEXTS = ("", "-", "a", "week", "year", "Europe/Paris", "(a|b)x", "%Y-%m", "g", "i", "aäß", "^([0-9]{2})-")
NUMBERS = ("-15", "0", "1", "2", "7", "1000")
CONSTANTS = (
    *(Lit("text", text) for text in TEXTS), *(Lit("int4", text) for text in NUMBERS), Lit("int8", "86400000000"),
    *(Lit(type_, text) for type_ in ("float8", "numeric") for text in ("-1.5", "10")), Lit("timestamp", "2000-01-01 00:00:00"),
    *(Lit("interval", text) for text in ("0 7 0", "1 0 0", "0 0 1", "1 2 3")),
)  # fmt: skip
KINDS = "inftbdpcvu"
BATCH = 40  # expressions a statement
MOST, MOST_OF = 4, {"row": 3}
"""Operands. A row's text is that of each part by itself, between commas: three show each type in front, within and behind, and
10,000 rows of four add a minute and nothing."""


def shows_more(name: str, operands: str) -> bool:
    """Whether other operands do not show the same. Of a row's three parts each two are of all kinds: the third follows."""
    return name != "row" or len(operands) < 3 or sum(map(KINDS.index, operands)) % len(KINDS) == 0


def accepted(exprs: Iterable[Expr], check: Callable[[Any], None]) -> list[Expr]:
    """Those that the kernel takes."""
    return [expr for expr in exprs if passes(expr, check)]


def passes(expr: Expr, check: Callable[[Any], None]) -> bool:
    try:
        check(expr)
    except Unproven:
        return False
    return True


@cache
def every_signature(most: int) -> str:
    """Kinds of so many operands at most and of the result, a line each."""
    operands = (each for size in range(most + 1) for each in itertools.product(KINDS, repeat=size))
    return "\n".join(f"{''.join(each)}>{result}" for each in operands for result in f"{KINDS}r")


@cache
def signatures(pattern: re.Pattern[str], most: int = MOST) -> tuple[tuple[str, str], ...]:
    """Kinds of operands and of the result that a pattern takes."""
    lines = re.compile(f"^{pattern.pattern}$", re.MULTILINE).finditer(every_signature(most))
    return tuple((operands, result) for operands, _, result in (line[0].partition(">") for line in lines))


def types(kind: str, size: int, most: int = 2) -> list[str]:
    """All types of a kind, of which pairs are made; one of each, of which longer lists are."""
    found = [t for t in TYPES if kinds.kind(t) == kind]
    return [t for t in found if t in PLAIN] if size > most else found


def made(name: str, pattern: re.Pattern[str], build: Callable[[str, tuple[Expr, ...]], Expr]) -> Iterator[Expr]:
    """Expressions of every signature, over columns, and over constants where these are wanted."""
    for operands, result in signatures(pattern, MOST_OF.get(name, MOST)):
        if not shows_more(name, operands):
            continue
        places: list[Sequence[Expr]] = []
        for i, kind in enumerate(operands):
            constant = i in CONSTANT.get(name, ())
            of = COLUMNS if i % 2 == 0 else OTHERS
            known = [c for c in CONSTANTS if kinds.kind(c.type) == kind]
            places.append(known if constant else [ref(of[t]) for t in types(kind, len(operands), 3 if name in WINDOWS else 2)])
        for args in itertools.product(*places):
            yield from (build(type_, args) for type_ in (types(result, 1) or ["record"]))


WRITTEN: dict[Dialect, dict[str, str]] = {
    "duckdb": {"float8": "(CASE WHEN {0} = 0 THEN -{0} ELSE {0} END)"},
    "postgres": {"float8": "(CASE WHEN {0} = 0 THEN -{0} ELSE {0} END)", "numeric": "({0} * 1.000)"},
}
"""Another value that is equal, and written otherwise."""


def otherwise(dialect: Dialect, column: Column, text: str) -> str:
    return WRITTEN[dialect].get(column.type, "{0}").format(text)


def as_it_is(dialect: Dialect, column: Column, text: str) -> str:
    return text


@cache
def calls(name: str) -> tuple[Expr, ...]:
    """An operation in every form that the kernel takes."""
    return tuple(accepted(made(name, OPERATIONS[name], lambda type_, args: Call(type_, name, args)), kinds.check_call))


def texts(dialect: Dialect, exprs: Iterable[Expr], written: Callable[[Dialect, Column, str], str] = as_it_is) -> list[str]:
    """Expressions as columns; without what the engine refuses before it is asked. Nothing else may be raised."""
    engine, found = engine_of(dialect), []
    columns = {c.id: c for c in (*COLUMNS.values(), *OTHERS.values())}
    known = {i: written(dialect, columns[i], text) for i, text in names(engine).items()}
    for expr in exprs:
        with contextlib.suppress(Refusal):
            found.append(engine.output(expr, known))
    return found


class Runner:
    """An engine with the hostile table."""

    def __init__(
        self, dialect: Dialect, execute: Callable[[str], object], row: Callable[[str], Sequence[Any]], failure: type[Exception]
    ) -> None:
        self.dialect, self._execute, self._row, self._failure = dialect, execute, row, failure
        for statement in statements(dialect, 200, 7):
            execute(statement)

    def failures(self, found: Sequence[str]) -> dict[str, str]:
        """The expressions for which a row makes a statement fail."""
        wrong: dict[str, str] = {}
        for at in range(0, len(found), BATCH):
            batch = found[at : at + BATCH]
            if self._error(batch):
                wrong |= {text: error for text in batch if (error := self._error([text]))}
        return wrong

    def told_apart(self, exprs: Iterable[Expr]) -> list[str]:
        """The expressions of numbers whose value is another one where a number is written otherwise."""
        exprs = [e for e in exprs if any(isinstance(a, Ref) and a.type in WRITTEN[self.dialect] for a in children(e))]
        pairs = zip(texts(self.dialect, exprs), texts(self.dialect, exprs, otherwise), strict=True)
        differing = [f"count(*) FILTER (WHERE ({a}) IS DISTINCT FROM ({b}))" for a, b in pairs]
        wrong = []
        for at in range(0, len(differing), BATCH):
            batch = differing[at : at + BATCH]
            counts = self._row(f"SELECT {', '.join(batch)} FROM hostile")
            wrong += [text for text, count in zip(batch, counts, strict=True) if count]
        return wrong

    def _error(self, batch: Sequence[str]) -> str:
        try:
            self._execute(f"SELECT {', '.join(f'({text}) AS c{i}' for i, text in enumerate(batch))} FROM hostile")
        except self._failure as error:
            return str(error)
        return ""


@pytest.fixture(scope="module", params=["duckdb", "postgres"])
def runner(request: pytest.FixtureRequest) -> Iterator[Runner]:
    if request.param == "duckdb":
        with duckdb.connect(config={"threads": 1}) as connection:
            execute = connection.execute
            yield Runner(
                "duckdb", lambda sql: execute(sql).to_arrow_table(), lambda sql: execute(sql).fetchone() or (), duckdb.Error
            )
        return
    server = request.getfixturevalue("postgres")
    with server.transaction(force_rollback=True):
        yield Runner(
            "postgres", lambda sql: _fetched(server, sql), lambda sql: server.execute(sql.encode()).fetchone(), psycopg.Error
        )


def _fetched(server: psycopg.Connection[Any], sql: str) -> None:
    """As text: Python has no year 294276."""
    with server.transaction(), server.cursor() as cursor:
        cursor.execute(sql.encode())


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_no_value_makes_an_operation_fail(name: str, runner: Runner) -> None:
    found = texts(runner.dialect, calls(name))
    assert found
    assert runner.failures(found) == {}


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_equal_numbers_have_equal_results(name: str, runner: Runner) -> None:
    """0 and -0, of PostgreSQL 1.5 and 1.50: an engine keeps either where rows are merged, and none that reads it can tell."""
    assert runner.told_apart(calls(name)) == []


def test_casts_of_equal_numbers_are_equal(runner: Runner) -> None:
    every = [Cast(target, ref(c)) for c in COLUMNS.values() for target in TYPES]
    assert runner.told_apart(accepted(every, kinds.check_cast)) == []


UNIT = ref(COLUMNS["uuid"])
ORDER = tuple((ref(c), False, False) for c in COLUMNS.values() if c.type != "interval")
FRAMES = (
    "",
    "ROWS BETWEEN 2 PRECEDING AND CURRENT ROW",
    "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING EXCLUDE CURRENT ROW",
)


@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", sorted(WINDOWS))
def test_no_value_makes_a_window_fail(name: str, frame: str, runner: Runner) -> None:
    built = made(name, WINDOWS[name], lambda type_, args: Win(type_, name, args, (UNIT,), ORDER, frame))
    found = texts(runner.dialect, accepted(built, kinds.check_window))
    assert found
    assert runner.failures(found) == {}


@pytest.mark.parametrize("name", sorted(AGGREGATES))
def test_no_value_makes_an_aggregate_fail(name: str, runner: Runner) -> None:
    built = made(name, AGGREGATES[name], lambda type_, args: Agg(type_, name, args))
    found = texts(runner.dialect, accepted(built, kinds.check_aggregate))
    assert found
    assert runner.failures(found) == {}


def test_no_value_makes_a_cast_fail(runner: Runner) -> None:
    every = (Cast(target, ref(c), length) for c in COLUMNS.values() for target in TYPES for length in ((), (5, 2), (3,))
             if not length or (len(length) == 2 and target == "numeric") or (len(length) == 1 and target == "varchar"))  # fmt: skip
    found = texts(runner.dialect, accepted(every, kinds.check_cast))
    assert len(found) > 60
    assert runner.failures(found) == {}


def test_no_value_makes_a_choice_or_a_comparison_fail(runner: Runner) -> None:
    test = call("is_null", ref(COLUMNS["int4"]))
    pairs = [(a, b) for a in COLUMNS.values() for b in OTHERS.values()]
    cases = (Case(t, ((test, ref(a)),), ref(b)) for a, b in pairs for t in TYPES)
    found = texts(runner.dialect, accepted(cases, kinds.check_case))
    lists = (InList("bool", ref(a), (ref(b), Lit(b.type, None))) for a, b in pairs)
    found += texts(runner.dialect, accepted(lists, lambda expr: kinds.check_pair(expr.arg, expr.items[0])))
    assert len(found) > 100
    assert runner.failures(found) == {}


A, B, T, D = (ref(COLUMNS[t]) for t in ("int4", "float8", "text", "date"))


@pytest.mark.parametrize(
    ("check", "expr"),
    [
        (kinds.check_call, call("concat", A, B, type_="int4")),
        (kinds.check_call, call("repeat", A, B, type_="int4")),
        (kinds.check_call, call("nullif", A, A)),
        (kinds.check_call, call("+", A, T, type_="int4")),
        (kinds.check_call, call("+", A, B, type_="int4")),
        (kinds.check_call, call("+", D, A, type_="date")),
        (kinds.check_call, call("=", A, T)),
        (kinds.check_call, call("and", A, call("is_null", A))),
        (kinds.check_call, call("lower", A, type_="text")),
        (kinds.check_call, call("coalesce", B, A, type_="int4")),
        (kinds.check_call, call("random", type_="float8")),
        (kinds.check_call, call("date_bin", ref(COLUMNS["interval"]), ref(COLUMNS["timestamp"]), Lit("timestamp", "2000-01-01"), type_="timestamp")),
        (kinds.check_call, call("date_bin", Lit("interval", "1 0 0"), ref(COLUMNS["timestamp"]), Lit("timestamp", "2000-01-01"), type_="timestamp")),
        (kinds.check_call, call("round", B, A, type_="numeric")),
        (kinds.check_call, call("round", B, lit("400"), type_="numeric")),
        (kinds.check_call, call("repeat", T, lit("100000"), type_="text")),
        (kinds.check_call, call("regex", T, T)),
        (kinds.check_call, call("regex", T, lit("(?=a)", "text"))),
        (kinds.check_call, call("regex", T, lit("(", "text"))),
        (kinds.check_call, call("regexp_replace", T, lit("a", "text"), lit("\\1", "text"), lit("", "text"), type_="text")),
        (kinds.check_call, call("from_utc", ref(COLUMNS["timestamp"]), lit("Nowhere/At all", "text"), type_="timestamp")),
        (kinds.check_call, call("lpad", T, lit("3"), lit("", "text"), type_="text")),
        (kinds.check_call, call("like", T, T, lit("ab", "text"))),
        (kinds.check_call, call("like", T, lit("ab\\", "text"))),
        (kinds.check_call, call("trunc_time", lit("fortnight", "text"), ref(COLUMNS["timestamp"]), type_="timestamp")),
        (kinds.check_call, call("bucket_float", B, lit("1", "float8"), lit("1", "float8"), lit("3"), type_="int4")),
        (kinds.check_call, call("interval_times", A, lit("12 0 0", "interval"), lit("2000000000", "int8"), type_="interval")),
        (kinds.check_cast, Cast("date", A)),
        (kinds.check_cast, Cast("int4", D)),
        (kinds.check_cast, Cast("interval", T)),
        (kinds.check_case, Case("int4", ((A, A),), None)),
        (kinds.check_case, Case("int4", ((call("is_null", A), ref(COLUMNS["int8"])),), None)),
        (kinds.check_aggregate, Agg("int8", "array_agg", (A,))),
        (kinds.check_aggregate, Agg("text", "sum", (T,))),
        (kinds.check_window, Win("int4", "lag", (A, lit("1"), ref(COLUMNS["int8"])), (UNIT,), ORDER)),
        (kinds.check_window, Win("date", "lag", (D, lit("1"), T), (UNIT,), ORDER)),
        (kinds.check_window, Win("int4", "nth_value", (A, A), (UNIT,), ORDER)),
        (kinds.check_window, Win("float8", "percent_rank", (), (UNIT,), ORDER)),
        (kinds.check_literal, Lit("int4", "2147483648")),
        (kinds.check_literal, Lit("float8", "abc")),
    ],
)  # fmt: skip
def test_what_is_not_total_is_refused(check: Callable[[Any], None], expr: Expr) -> None:
    with pytest.raises(Unproven):
        check(expr)


def test_what_spark_has_no_spelling_for_is_refused_before_it_is_asked() -> None:
    """And nothing else is raised."""
    for name in OPERATIONS:
        texts("spark", calls(name))


def test_a_parameter_may_stand_for_a_list() -> None:
    kinds.check_pair(A, Hole("int8[]", 0))
    for other in (Hole("text[]", 0), ref(column(1, "int8[]"))):
        with pytest.raises(Unproven):
            kinds.check_pair(A, other)


def test_what_stands_where_another_is_wanted() -> None:
    assert kinds.becomes("int4", "int8")
    assert kinds.becomes("date", "timestamptz")
    assert kinds.becomes("varchar", "text")
    assert not any(
        (
            kinds.becomes("int8", "int4"),
            kinds.becomes("timestamp", "date"),
            kinds.becomes("json", "jsonb"),
            kinds.becomes("text", "int4"),
        )
    )


def test_every_kind_can_be_cast() -> None:
    assert all(kind in CASTS[kind] for kind in KINDS)
