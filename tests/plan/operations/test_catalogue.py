"""The catalogue: an invented operation is one row, and every room reads it; who else knows an operation by its name.

`LEVEL` and `ECHO` are operations that no engine has. With nothing but their rows they are functions of SQL that plan on all three
engines, with their bounds, their NULLs and their length. The kernel has a list of its own, and refuses them until they are on it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import plan_harness
import pytest
from plan_harness import queries, values_of

from dpproxy.engines import engine as engine_of
from dpproxy.errors import Refusal
from dpproxy.kernel import allowed, kinds
from dpproxy.plan.model import Plan
from dpproxy.plan.operations import bounds
from dpproxy.plan.operations.catalogue import CATALOGUE, operation
from dpproxy.plan.operations.operation import Nulls, Operation, Refused
from dpproxy.plan.properties import text_growth
from dpproxy.plan.properties.facts import facts
from dpproxy.plan.properties.text_growth import longest_text
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.template import Dialect
from dpproxy.tree.expr import Call, Lit

ENGINES: tuple[Dialect, ...] = ("duckdb", "postgres", "spark")
LEVEL = Operation(
    name="level_of", takes="i>i", nulls=Nulls.OPERAND, functions=("level_of",), operands="i", result="int4",
    bound=bounds.within(0, 6), grid=bounds.whole, dense=True, duckdb="level_duck({0:i})", postgres="level_elephant({0:i})",
    spark="level_spark({0})",
)  # fmt: skip
ECHO = Operation(
    name="echo_of", takes="t>t", nulls=Nulls.OPERAND, functions=("echo_of",), operands="t", result="text", grows=True,
    length=lambda sizes, _: sizes[0] * 5, duckdb="echo_duck({0:g})", postgres="echo_elephant({0:g})", spark="echo_spark({0:g})",
)  # fmt: skip
SPELLED = {"duckdb": "duck", "postgres": "elephant", "spark": "spark"}


@contextmanager
def added(*rows: Operation, to_the_kernel: bool = True) -> Iterator[None]:
    """Operations that are in the catalogue for a while, and on the kernel's list."""
    with pytest.MonkeyPatch.context() as patch:
        for row in rows:
            patch.setitem(CATALOGUE, row.name, row)
            if to_the_kernel:
                patch.setitem(allowed.OPERATIONS, row.name, re.compile(f"(?:{row.takes})"))
        kinds._takes.cache_clear()
        yield
    kinds._takes.cache_clear()


def planned(sql: str, catalog: Catalog, dialect: Dialect) -> Plan:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan_harness, "engine", dialect)
        return plan_harness.plan(sql, catalog)


def generated(sql: str, catalog: Catalog, dialect: Dialect) -> str:
    made = planned(sql, catalog, dialect)
    return "\n".join(text for m in made.measurements for text in queries(m, values_of(made)))


@pytest.mark.parametrize("dialect", ENGINES)
def test_one_row_is_a_function_on_every_engine(dialect: Dialect, shop_catalog: Catalog) -> None:
    sql = "SELECT sum(level_of(qty)), count(DISTINCT echo_of(status)) FROM orders"
    with pytest.raises(Refusal, match=r"level_of\(\) is not allowed"):
        planned(sql, shop_catalog, dialect)
    with added(LEVEL, ECHO):
        text = generated(sql, shop_catalog, dialect)
    assert f"level_{SPELLED[dialect]}(" in text
    assert f"echo_{SPELLED[dialect]}(left(" in text, "the column is cut where a longer text is made of it"


@pytest.mark.parametrize("dialect", ENGINES)
def test_its_bound_is_that_of_a_sum(dialect: Dialect, shop_catalog: Catalog) -> None:
    sql = "SELECT sum(level_of(qty)) FROM orders"
    with added(LEVEL):
        narrow = planned(sql, shop_catalog, dialect)
    with added(replace(LEVEL, bound=bounds.within(0, 600))):
        wide = planned(sql, shop_catalog, dialect)
    assert max(b.linf for b in wide.measurements[0].bases) == 100 * max(b.linf for b in narrow.measurements[0].bases)
    with added(replace(LEVEL, bound=None)), pytest.raises(Refusal):
        planned(sql, shop_catalog, dialect)


@pytest.mark.parametrize("dialect", ENGINES)
def test_its_values_and_nulls_are_the_groups(dialect: Dialect, shop_catalog: Catalog) -> None:
    """A length of a text that is not NULL: whether there is a group for NULL is for the row to say."""
    sql = "SELECT level_of(length(coalesce(note, ''))), count(*) FROM orders GROUP BY 1"
    with added(LEVEL):
        never = generated(sql, shop_catalog, dialect)
    with added(replace(LEVEL, nulls=Nulls.OTHERS)):
        some = generated(sql, shop_catalog, dialect)
    groups = {"duckdb": "range(0, 7)", "postgres": "generate_series(0::bigint, 6::bigint)", "spark": "range(0, 7)"}[dialect]
    assert groups in never
    assert "UNION ALL SELECT CAST(NULL" not in never.replace("\n", " ")
    assert len(some) > len(never), "and a group for NULL"
    with added(replace(LEVEL, dense=False)):
        assert groups not in generated(sql, shop_catalog, dialect), "without values that are known groups are found in the data"


def test_facts_and_lengths_are_those_of_the_row() -> None:
    number, word = Lit("int4", "3"), Lit("text", "abcd")
    with added(LEVEL, ECHO):
        level, echo = Call("int4", "level_of", (number,)), Call("text", "echo_of", (word,))
        assert (facts(level).bound.ends, facts(level).grid) == ((0, 6), Fraction(1))
        assert longest_text(echo) == text_growth.length(echo, {}, 100) == 20
    with added(replace(LEVEL, nulls=Nulls.NEVER)):
        assert not facts(Call("int4", "level_of", (number,))).nullable


def test_longer_texts_are_cut_shorter(shop_catalog: Catalog) -> None:
    sql = "SELECT count(DISTINCT echo_of(note)) FROM orders"

    def cut() -> int:
        return max(int(n) for n in re.findall(r"echo_duck\(left\([^,]*, (\d+)\)", generated(sql, shop_catalog, "duckdb")))

    with added(ECHO):
        usual = cut()
    with added(replace(ECHO, length=lambda sizes, _: sizes[0] * 20)):
        assert cut() < usual


@pytest.mark.parametrize("dialect", ENGINES)
def test_the_kernel_refuses_it_until_its_own_list_knows_it(dialect: Dialect, shop_catalog: Catalog) -> None:
    sql = "SELECT count(*) FROM orders WHERE level_of(qty) > 2"
    with added(LEVEL, to_the_kernel=False), pytest.raises(plan_harness.Unproved, match="`level_of` of these kinds"):
        planned(sql, shop_catalog, dialect)
    with added(LEVEL):
        assert planned(sql, shop_catalog, dialect).measurements


def test_what_a_row_does_not_take_is_refused(shop_catalog: Catalog) -> None:
    with added(LEVEL):
        with pytest.raises(Refusal, match="`level_of` of text"):
            planned("SELECT count(*) FROM orders WHERE level_of(status) > 2", shop_catalog, "duckdb")
        with pytest.raises(Refusal, match="`level_of` with 2 arguments"):
            planned("SELECT count(*) FROM orders WHERE level_of(qty, qty) > 2", shop_catalog, "duckdb")
    refusing = replace(LEVEL, spark=Refused("it has no levels"))
    with added(refusing), pytest.raises(Refusal, match=r"level_of.*it has no levels"):
        planned("SELECT count(*) FROM orders WHERE level_of(qty) > 2", shop_catalog, "spark")


def test_of_a_name_that_is_no_operation_nothing_is_known() -> None:
    unknown = operation("no operation")
    assert (unknown.bound, unknown.length, unknown.nulls) == (None, None, Nulls.OTHERS)
    assert not unknown.accepts(("int4",), "int4")
    for dialect in ENGINES:
        with pytest.raises(Refusal, match="no operation"):
            engine_of(dialect).expr(Call("int4", "no operation", ()), {})


def test_rows_say_what_they_must() -> None:
    names = [name for row in CATALOGUE.values() for name in row.functions]
    assert len(names) == len(set(names)), "two rows are one function"
    for row in CATALOGUE.values():
        assert bool(row.functions) <= bool(row.operands and row.result), f"{row.name} is a function of no type"
        assert row.length is not None or not row.grows, f"{row.name} grows without end"
        assert row.mirrored in ("", *CATALOGUE), row.name
    assert CATALOGUE["concat"].length is bounds.total


# --- who knows an operation by its name

ROOT = Path(__file__).resolve().parents[3] / "dpproxy"
ROOMS = ("plan", "engines", "kernel", "tree")
OWN = (
    "plan/operations/",
    "plan/functions/",
    "kernel/allowed.py",
    "kernel/constants.py",
    "kernel/kinds.py",
    "plan/bind/conditions.py",
    "plan/bind/special_forms.py",
    "plan/outer/candidate_texts.py",
    "plan/rewrite/parts_of_texts.py",
)
"""The catalogue, the builders of SQL's functions and forms, the kernel's own list, the values of candidates' texts, and the rule
that writes functions of PostgreSQL's into a statement."""
UNMISTAKABLE = [
    "is_not_false",
    "bitand",
    "bitor",
    "bitxor",
    "bitnot",
    "bitright",
    "ilike",
    "iregex",
    "regexp_extract",
    "regexp_count",
    "substring_from",
    "octet_length",
    "initcap",
    "bucket_float",
    "bucket_numeric",
    "atan2",
    "cbrt",
    "asin",
    "acos",
    "atan",
    "isoyear",
    "isodow",
    "doy",
    "dow",
    "trunc_time",
    "date_bin",
    "strftime",
    "from_utc",
    "to_utc",
    "from_epoch",
    "interval_times",
    "interval_parts",
    "ts_add",
    "ts_sub",
    "ts_diff",
    "date_add",
    "date_sub",
    "date_diff",
    "make_date",
    "isfinite",
    "starts_with",
    "split_part",
    "translate",
    "ascii",
]
"""Operations whose names mean nothing else."""


def named_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    prose = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant)}
    texts = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in prose]
    return {word for text in texts for word in (text, *(text.split(" ") if path.name == "allowed.py" else ()))}


def files_that_name() -> dict[str, list[str]]:
    """Of each unmistakable operation, the files with its name in a string."""
    found: dict[str, list[str]] = {name: [] for name in UNMISTAKABLE}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            for name in named_in(path) & found.keys():
                found[name].append(path.relative_to(ROOT).as_posix())
    return found


def test_an_operation_is_known_by_name_in_few_places() -> None:
    found = files_that_name()
    assert {name for name in UNMISTAKABLE if name not in CATALOGUE} == set()
    elsewhere = {name: [file for file in files if not file.startswith(OWN)] for name, files in found.items()}
    assert {name: files for name, files in elsewhere.items() if files} == {}
    assert all(len(files) >= 2 for files in found.values()), "the catalogue and the kernel's list"
    assert sum(map(len, found.values())) / len(found) < 3.6
