"""`dpproxy prepare`: a copy that a proxy over the same state folder finds."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.errors import OperatorError
from tests.serve.test_prepared_copies import POLICY, VERIFIER, make


def prepared(folder: Path, *options: str) -> str:
    result = CliRunner().invoke(commands, ["prepare", str(folder / "town.yaml"), "--state", str(folder / "state"), *options])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def write(folder: Path, old: str = "mode: on", new: str = "mode: auto") -> None:
    (folder / "town.yaml").write_text(POLICY.replace("VERIFIER", VERIFIER).replace(old, new))


def test_it_is_made_once_and_told(tmp_path: Path) -> None:
    """Whatever size the data have."""
    make(tmp_path / "data.duckdb", 60)
    write(tmp_path, "queries: [", "queries: [SELECT nonsense, ")
    first = prepared(tmp_path)
    assert "query 1 of `accelerate` has no table: it measures nothing of a private table" in first
    assert "10 tables to be made, in about 0 s of one processor and at most 67.1 MB of disk" in first
    assert "made: 10 tables" in first
    (copy,) = tmp_path.rglob("elsewhere/*/*.duckdb")
    assert str(copy) in first
    assert "made before, of these very data: 10 tables" in prepared(tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("mode: on", "mode: off", "says `accelerate: off`"),
        ("unit: person\n    bounds: { rows_per_group: 20, groups: all }", "public: true", "nothing to prepare"),
    ],
)
def test_what_stands_in_the_way(tmp_path: Path, old: str, new: str, says: str) -> None:
    make(tmp_path / "data.duckdb", 60)
    write(tmp_path, old, new)
    if "public" in new:
        text = (tmp_path / "town.yaml").read_text()
        (tmp_path / "town.yaml").write_text(text.replace("      person: unit\n", "      person: {}\n"))
    with pytest.raises(OperatorError, match=says):
        prepared(tmp_path)
