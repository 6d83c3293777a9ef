"""What other engines' and tools' SQL becomes, statement by statement, as docs/dialects.md and docs/reference/dialect-examples.md say it.

Knows: the pages' tables, the planner. Must not know: data. Each row of a table is a statement and its outcome: `runs`, or `refused:` and
how the message begins. Tableau's formulas stand in `tableau_formulas.txt`, each with its name; those that are refused are on the page.
"""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import duckdb
import pytest

from dpproxy.backends.duckdb import DuckDB
from dpproxy.errors import Refusal
from dpproxy.policy.load import load_file
from dpproxy.policy.model import DuckDBBackend
from dpproxy.review.verdicts import Bench, Refused
from dpproxy.sql.repeatability import check_allowed
from dpproxy.sql.statements import split
from tests.worlds import dialects

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE, EXAMPLES = (DOCS / "dialects.md").read_text(), (DOCS / "reference" / "dialect-examples.md").read_text()
FORMULAS = Path(__file__).with_name("tableau_formulas.txt").read_text().splitlines()
ROW = re.compile(r"^\| (?P<tick>`+) ?(?P<sql>.+?) ?(?P=tick) \| (?P<outcome>runs|refused: .+?) \|$", re.MULTILINE)
SECTION = re.compile(r"^## (?P<title>.+?)$(?P<text>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def opened(world: str, folder: Path) -> Bench:
    with duckdb.connect(str(folder / f"{world}.duckdb")) as connection:
        connection.execute(dialects.TABLES[world])
    (folder / f"{world}.yaml").write_text(dialects.policy(world))
    policy = load_file(folder / f"{world}.yaml").policy

    async def introspected() -> Bench:
        backend = DuckDB(DuckDBBackend(str(folder / f"{world}.duckdb")))
        try:
            return Bench(policy, await backend.introspect(), "duckdb")
        finally:
            await backend.close()

    return asyncio.run(introspected())


@pytest.fixture(scope="module")
def benches(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Bench]:
    folder = tmp_path_factory.mktemp("dialects")
    return {world: opened(world, folder) for world in dialects.TABLES}


def outcome(bench: Bench, sql: str) -> str:
    if not sql.startswith(("SELECT", "WITH")):
        return made_by_owners(sql)
    found = bench.verdict("analyst", sql)
    return f"refused: {found.message}" if isinstance(found, Refused) else "runs"


def made_by_owners(sql: str) -> str:
    """Policies are not made by statements: these are refused before anybody plans them."""
    try:
        check_allowed(split(sql, frozenset())[0])
    except Refusal as refusal:
        return f"refused: {refusal.message}"
    return "runs"


def world_of(title: str) -> str:
    return next(world for word, world in (("codelab", "codelab"), ("Snowflake", "snowflake"), ("", "googlesql")) if word in title)


@pytest.mark.parametrize("section", list(SECTION.finditer(EXAMPLES)), ids=lambda s: s["title"].replace(" ", "-"))
def test_examples_of_the_field(benches: dict[str, Bench], section: re.Match[str]) -> None:
    rows = [(m["sql"], m["outcome"].replace("\\", "")) for m in ROW.finditer(section["text"])]
    assert len(rows) > 1, "the section has lost its table"
    bench = benches[world_of(section["title"])]
    wrong = [(sql, found) for sql, said in rows if not (found := outcome(bench, sql)).startswith(said)]
    assert wrong == []


def test_all_examples_are_there() -> None:
    assert len(ROW.findall(EXAMPLES)) >= 110
    assert re.findall(r"(\d+) examples", EXAMPLES) == [str(len(ROW.findall(EXAMPLES)))]


def test_formulas_of_tableau(benches: dict[str, Bench]) -> None:
    found = {name: outcome(benches["tools"], sql) for name, sql in (line.split("\t") for line in FORMULAS)}
    refused = sorted(name for name, said in found.items() if said != "runs")
    listed = sorted(re.findall(r"^- `([^`]+)`:", PAGE, re.MULTILINE))
    assert refused == listed
    assert f"{len(found) - len(refused)} of {len(found)}" in PAGE
