"""The policies of the repository say what their test files expect, asked on the shape of their data."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from dpproxy.authoring.cases import as_text, read_cases, results
from dpproxy.authoring.workbench import open_workbench
from dpproxy.cli import policy_app
from dpproxy.demo import STEPS
from dpproxy.policy.load import load_file
from dpproxy.policy.model import ColumnRole, Policy

POLICIES = Path(__file__).resolve().parents[2] / "policies"


def shop_shape(path: Path) -> None:
    """The shop's tables: public ones whole, private ones without rows."""
    with duckdb.connect(str(path)) as database:
        for name, sql in STEPS:
            if name == "products":
                database.execute(sql)
            for made in re.findall(r"CREATE TABLE \w+ \(\n.*?\);", sql, re.S) if name != "products" else ():
                database.execute(made)


def shape_of(name: str, path: Path) -> None:
    """The tables of an example: the shop's as its demo makes them, the others' as their schema says."""
    if name == "shop":
        shop_shape(path)
        return
    with duckdb.connect(str(path)) as database:
        database.execute((POLICIES / "schema" / f"{name}.sql").read_text())


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.test.yaml")), ids=lambda path: path.name)
def test_an_example_holds(path: Path, tmp_path: Path) -> None:
    shape = tmp_path / "shape.duckdb"
    shape_of(path.name.split(".")[0], shape)
    file = read_cases(path.read_text(), path)
    found = results(file, asyncio.run(open_workbench(file.policy, shape)).bench)
    assert not any(result.failures for result in found), as_text(file, found)


def test_every_example_has_its_tests() -> None:
    policies = {path.name.split(".")[0] for path in POLICIES.glob("*.yaml")}
    schemas = {"shop"} | {path.stem for path in (POLICIES / "schema").glob("*.sql")}
    assert policies == {path.name.split(".")[0] for path in POLICIES.glob("*.test.yaml")} == schemas
    assert len(policies) >= 5


def skeleton(policy: Policy) -> dict[str, object]:
    """Whom a policy protects, and how each table belongs to them."""
    return {"unit": (policy.unit_table, policy.unit_column)} | {str(t.name): t.unit for t in policy.tables.values()}


def shown(policy: Policy) -> set[str]:
    """Columns of private tables whose values may be shown as groups, or added up."""
    tables = [t for t in policy.tables.values() if not t.kind.shown]
    return {f"{t.name}.{c.name}" for t in tables for c in t.columns.values() if c.role is ColumnRole.PLAIN}


def of_people(path: Path) -> bool:
    """Whether a table of the example has a unit, which a draft begins with."""
    return load_file(POLICIES / f"{path.stem}.yaml").policy.unit_key is not None


@pytest.mark.parametrize("path", [*filter(of_people, sorted((POLICIES / "schema").glob("*.sql")))], ids=lambda path: path.stem)
def test_init_drafts_the_skeleton_of_an_example(path: Path, tmp_path: Path) -> None:
    """What a draft hides beyond the example is for its reader to show; it shows nothing that the example hides."""
    shape_of(path.stem, tmp_path / f"{path.stem}.duckdb")
    out = tmp_path / "draft.yaml"
    example = load_file(POLICIES / f"{path.stem}.yaml").policy
    public = [word for table in example.tables.values() if table.kind.shown for word in ("--public", str(table.name))]
    done = CliRunner().invoke(policy_app, ["init", str(tmp_path / f"{path.stem}.duckdb"), "--out", str(out), "--yes", *public])
    assert done.exit_code == 0, done.output
    drafted = load_file(out).policy
    assert skeleton(drafted) == skeleton(example)
    assert shown(drafted) <= shown(example)
