"""Loading: the good file gives exactly the model; each kind of error is reported at its place, all of them at once.

The cases of wrong files are in problems.txt: adding one needs no Python.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from dpproxy.amounts import ATTO
from dpproxy.policy.load import PolicyError, load_file, load_policy, load_text, read_text
from dpproxy.policy.model import Bounds, Budget, DuckDBBackend, PostgresBackend, SparkBackend, Step
from dpproxy.policy.people import make_verifier
from dpproxy.policy.problems import Mark, Problem
from dpproxy.policy.tree import MAX_BYTES
from dpproxy.table_terms import TableName

HERE = Path(__file__).parent
VERIFIER = make_verifier("hunter2", salt=b"0123456789abcdef")
GOOD = (HERE / "good.yaml").read_text()


def table(name: str) -> TableName:
    return TableName("public", name)


def load(text: str, **env: str):
    return load_text(text.replace("VERIFIER", VERIFIER), "p.yaml", Path("/data"), env)


def problems(text: str, **env: str) -> list[str]:
    with pytest.raises(PolicyError) as caught:
        load(text, **env)
    return [str(p).removeprefix("p.yaml:") for p in caught.value.problems]


def cases() -> list[tuple[str, str, str, list[str]]]:
    found = []
    for block in (HERE / "problems.txt").read_text().split("## ")[1:]:
        name, *lines = block.splitlines()
        part = {sign: [line[2:] for line in lines if line.startswith(sign + " ")] for sign in "-+!"}
        found.append((name, "\n".join(part["-"]), "\n".join(part["+"]), part["!"]))
    return found


def replace(old: str, new: str) -> str:
    assert GOOD.count(old) == 1, "the fragment must be in good.yaml exactly once"
    whole_lines = f"\n{old}\n" in GOOD
    return GOOD.replace(old + "\n", "") if whole_lines and not new else GOOD.replace(old, new)


@pytest.mark.parametrize(("name", "old", "new", "expected"), cases(), ids=[c[0] for c in cases()])
def test_every_kind_of_problem_has_its_place_and_fix(name: str, old: str, new: str, expected: list[str]) -> None:
    assert problems(replace(old, new)) == expected


def test_all_problems_are_reported_at_once_in_order() -> None:
    text = replace("via: orders.order_id", "via: orders.oder_id")
    for old, new in (
        ("[F, M]", "[F, F]"),
        ("[1920, 2010]", "[2, 1]"),
        ("groups: 5", "groups: 0"),
        ("every: m", "every: n"),
    ):
        text = text.replace(old, new)
    assert [p.split(":")[0] for p in problems(text)] == ["14", "15", "20", "36"]


def test_the_good_file() -> None:
    policy = load(GOOD)
    assert (policy.dataset, policy.backend) == ("shop", DuckDBBackend("/data/shop.duckdb"))
    assert (policy.unit_name, policy.unit_table, policy.unit_column) == ("customer", table("customers"), "customer_id")
    assert policy.budget == Budget(100_000_000, ATTO // 100_000, "year")
    assert list(policy.tables) == [table(n) for n in ("customers", "orders", "order_items", "products")]
    assert policy.views == {table("recent"): "SELECT region FROM customers"}
    assert (policy.reuse_seconds, policy.epoch, policy.timing_quantum_ms) == (86400, None, None)
    assert policy.users["ada"].password == VERIFIER
    assert VERIFIER not in repr(policy)


def test_names_are_in_postgresql_spelling() -> None:
    text = GOOD.replace(
        "  products:\n",
        "  FCC 2018 Survey: { public: true }\n  CD.Rooms: { public: true }\n  main.T: { public: true }\n  products:\n",
    )
    names = list(load(text.replace("order_id: key\n", "Order_ID: key\n")).tables)
    assert {str(n) for n in names} >= {"FCC 2018 Survey", "cd.rooms", "t"}
    assert "order_id" in load(text.replace("order_id: key\n", "Order_ID: key\n")).tables[table("orders")].columns


def test_paths_of_several_hops_and_renamed_keys() -> None:
    extra = "  refunds:\n    unit: { via: order_items.line, column: item }\n    bounds: { rows_per_group: 1, groups: 1 }\n"
    unit = load(GOOD.replace("  products:\n", extra + "  products:\n")).tables[table("refunds")].unit
    assert unit is not None
    assert unit.column == "customer_id"
    assert unit.steps == (
        Step("item", table("order_items"), "line"),
        Step("order_id", table("orders"), "order_id"),
    )


def test_a_key_that_refers_to_the_unit_is_the_unit() -> None:
    unit = load(GOOD.replace("orders.order_id", "orders.customer_id, column: buyer")).tables[table("order_items")].unit
    assert unit is not None
    assert (unit.column, unit.steps) == ("buyer", ())


def test_unique_is_declared_or_denied() -> None:
    assert load(replace("    bounds: { rows_per_group: 10, groups: 5 }", "    unique: true")).tables[table("orders")].one
    many = GOOD.replace(
        "customer_id\n    columns",
        "customer_id\n    unique: false\n    bounds: { rows_per_group: 3, groups: 2 }\n    columns",
        1,
    )
    customers = load(many).tables[table("customers")]
    assert (customers.one, customers.bounds) == (False, Bounds(3, 2))


def test_backend_references(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    text = GOOD.replace(
        "backend: { duckdb: shop.duckdb }",
        "backend:\n  postgres: postgresql://${env:U}@db/shop\n  password: ${file:secret}",
    )
    policy = load_text(text.replace("VERIFIER", VERIFIER), "p", tmp_path, {"U": "reader"})
    assert policy.backend == PostgresBackend("postgresql://reader@db/shop", "s3cret")
    assert "s3cret" not in repr(policy)


def test_the_value_of_a_reference_is_not_a_reference() -> None:
    text = GOOD.replace("duckdb: shop.duckdb", 'duckdb: "${env:A}"')
    assert load(text, A="${env:B}", B="x").backend == DuckDBBackend("/data/${env:B}")


def test_no_message_repeats_a_password() -> None:
    assert "hunter2" not in "".join(problems(GOOD.replace("VERIFIER", "hunter2")))
    assert "s3cret" not in "".join(
        problems(GOOD.replace("{ duckdb: shop.duckdb }", '{ duckdb: "${env:A}", password: s3cret }'), A="s3cret")
    )


def test_no_roles() -> None:
    text = GOOD[: GOOD.index("roles:")] + "roles: {}\nusers: {}\n"
    assert problems(text) == ["34:8: there are no roles; fix: add a role with a `budget` and `query`"]


def test_places_for_later_checks(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(GOOD.replace("VERIFIER", VERIFIER), encoding="utf-8-sig")  # a byte order mark is not an error
    loaded = load_file(file, {})
    assert loaded.positions["tables", "orders", "amount"] == Mark(24, 7)
    assert loaded.policy == load_policy(file, {})


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"\xff\xfe\x00", "1:1: is not UTF-8 text; fix: save the file as UTF-8"),
        (b"", "1:1: the file is empty; fix: start with `version: 1`"),
        (b"a" * (MAX_BYTES + 1), "1:1: larger than 1048576 bytes; fix: split the data set or the policy"),
        (b"# only a comment\n", "1:1: the file is empty; fix: start with `version: 1`"),
    ],
)
def test_files_that_are_no_policies(tmp_path: Path, content: bytes, what: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(content)
    with pytest.raises(PolicyError) as caught:
        load_policy(file, {})
    assert str(caught.value) == f"{file}:{what}"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match=r"none\.yaml:1:1: cannot be read: No such file"):
        load_policy(tmp_path / "none.yaml", {})


def loads_or_says_why(text: str) -> None:
    found: tuple[Problem, ...] | None = None
    try:
        load(text)
    except PolicyError as error:
        found = error.problems
    assert found is None or found
    for problem in found or ():
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.what
        assert problem.fix


@given(st.text(max_size=200))
@example("\ud800")
@example("a: 1e99999999")
@example("? ? ?")
@example("%YAML 9.9\n---\na")
@example("'\\u" * 9)
@settings(max_examples=150, deadline=None)
def test_rubbish_is_only_ever_a_policy_error(text: str) -> None:
    loads_or_says_why(text)


SCRAPS = [
    "",
    "~",
    "[]",
    "{}",
    "- x",
    "1e9",
    "-0",
    ".5",
    "'q'",
    "*a",
    "&a b",
    "!!set {}",
    "[[], {}]",
    "true",
    "2024-02-30",
    "${env:X}",
    "x: y",
    "|",
    ">-",
    "\t",
    "\0",
    "…",
    "0x1F",
    '"\\ud800"',
]


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 40), st.sampled_from(SCRAPS) | st.text(max_size=8))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_damaged_policy_is_only_ever_a_policy_error(start: int, length: int, scrap: str) -> None:
    loads_or_says_why(GOOD[:start] + scrap + GOOD[start + length :])


def test_spark_connect() -> None:
    spark = '{ spark: "sc://host/;use_ssl=true", catalog: lake, token: "${env:T}" }'
    assert load(replace("{ duckdb: shop.duckdb }", spark), T="s3cret").backend == SparkBackend(
        "sc://host/;use_ssl=true", "lake", "s3cret"
    )


@pytest.mark.parametrize("backend", ['{ spark: "sc://host", token: abc }', '{ spark: "sc://host/;token=abc" }'])
def test_a_token_in_clear_is_warned_of(backend: str) -> None:
    text = replace("{ duckdb: shop.duckdb }", backend).replace("VERIFIER", VERIFIER)
    assert [w.code for w in read_text(text, "p.yaml", Path("/data"), {}).warnings] == ["secret-in-clear"]
