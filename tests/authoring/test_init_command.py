"""`dpproxy policy init`: a draft that passes check, a password told once, and what it may cost."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from typer.testing import CliRunner

from dpproxy.cli import commands, policy_app
from dpproxy.policy.load import load_file
from dpproxy.policy.problems import PolicyError
from dpproxy.table_terms import TableName

RUN = CliRunner()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "clinic.duckdb")) as connection:
        connection.execute(
            "CREATE TABLE patients (patient_id INTEGER PRIMARY KEY, sex VARCHAR CHECK (sex IN ('F', 'M')), age INTEGER)"
        )
        connection.execute(
            "CREATE TABLE visits (visit INTEGER, patient_id INTEGER REFERENCES patients (patient_id), ward INTEGER)"
        )
        connection.execute("CREATE TABLE wards (ward INTEGER, title VARCHAR)")
        connection.execute("INSERT INTO patients SELECT i, 'F', 20 + i % 50 FROM range(2000) AS t(i)")
        connection.execute("INSERT INTO visits SELECT i, i % 2000, i % 7 FROM range(6000) AS t(i)")
    return tmp_path / "clinic.duckdb"


def test_a_first_policy(source: Path) -> None:
    out = source.with_name("clinic.yaml")
    done = RUN.invoke(policy_app, ["init", str(source), "--out", str(out), "--yes"])
    assert done.exit_code == 0, done.output
    policy = load_file(out).policy
    assert (policy.dataset, str(policy.unit_table), policy.unit_column) == ("clinic", "patients", "patient_id")
    assert re.search(r"user analyst, password \S{16} \(printed this once\)", done.output)
    assert [line.split()[1] for line in done.output.splitlines() if line.startswith("  dpproxy")] == ["policy", "serve", "psql"]
    checked = RUN.invoke(policy_app, ["check", str(out)])
    assert checked.exit_code == 0, checked.stderr
    assert "{ values: [F, M], nulls: true }  # from the schema" in out.read_text()
    with pytest.raises(PolicyError, match="exists already"):
        RUN.invoke(policy_app, ["init", str(source), "--out", str(out), "--yes"], catch_exceptions=False)


def test_flags(source: Path) -> None:
    out = source.with_name("other.yaml")
    told = [
        "--dataset",
        "other",
        "--unit",
        "visits.patient_id",
        "--unit-name",
        "case",
        "--public",
        "wards",
        "--leave-out",
        "patients",
    ]
    done = RUN.invoke(policy_app, ["init", str(source), "--out", str(out), "--user", "eve", "--yes", *told])
    assert done.exit_code == 0, done.output
    policy = load_file(out).policy
    assert (policy.dataset, policy.unit_name, str(policy.unit_table), list(policy.users)) == ("other", "case", "visits", ["eve"])
    assert sorted(map(str, policy.tables)) == ["visits", "wards"]


@pytest.mark.parametrize(
    ("flags", "says"), [(["--unit", "visits.nothing"], "no column here"), (["--public", "ward"], "no table `ward`")]
)
def test_flags_that_name_nothing(source: Path, flags: list[str], says: str) -> None:
    with pytest.raises(PolicyError, match=says):
        RUN.invoke(
            policy_app, ["init", str(source), "--out", str(source.with_name("x.yaml")), "--yes", *flags], catch_exceptions=False
        )


def test_nobody_is_protected_by_guess(tmp_path: Path) -> None:
    """Where no name is that of people, the author must say who they are: a catalogue's code is no person."""
    with duckdb.connect(str(tmp_path / "chat.duckdb")) as connection:
        connection.execute("CREATE TABLE emojis (code VARCHAR, label VARCHAR)")
    arguments = ["init", str(tmp_path / "chat.duckdb"), "--out", str(tmp_path / "x.yaml"), "--yes"]
    with pytest.raises(PolicyError, match="no column names people by its name"):
        RUN.invoke(policy_app, arguments, catch_exceptions=False)


def test_questions_on_a_terminal(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpproxy.authoring.init_command._on_terminal", lambda: True)
    out = source.with_name("asked.yaml")
    done = RUN.invoke(policy_app, ["init", str(source), "--out", str(out)], input="\nperson\ny\n")
    assert done.exit_code == 0, done.output
    assert load_file(out).policy.unit_name == "person"
    assert "wards: { public: true }\n" in out.read_text()


@pytest.mark.long
def test_epsilon_is_spent_and_recorded(source: Path) -> None:
    """Ranges come near the data's, and the ledger of the dataset has the charge."""
    out, state = source.with_name("paid.yaml"), source.with_name("state")
    told = ["--dataset", "paid", "--spend-epsilon", "10", "--state", str(state)]
    done = RUN.invoke(policy_app, ["init", str(source), "--out", str(out), "--yes", *told])
    assert done.exit_code == 0, done.output
    policy = load_file(out).policy
    low, high = policy.tables[policy.unit_table].columns["age"].range or (None, None)
    assert low is not None
    assert high is not None
    assert 15 <= low <= 25  # type: ignore[operator]
    assert 65 <= high <= 75  # type: ignore[operator]
    assert "give or take" in out.read_text()
    assert policy.tables[TableName("public", "visits")].columns["ward"].values == tuple(range(7))
    said = RUN.invoke(commands, ["budget", str(out), "--state", str(state)])
    dataset = next(line.split("\t") for line in said.stdout.splitlines() if line.startswith("dataset\t"))
    assert 9.9 < float(dataset[3]) <= 10, said.stdout


@pytest.mark.parametrize("flag", ["--public", "--leave-out"])
def test_whom_to_protect_is_not_given_away(source: Path, flag: str) -> None:
    """A table that is public or left out names no unit, whether by its name or by the author's word."""
    with duckdb.connect(str(source)) as database:
        database.execute("CREATE TABLE users (user_id INTEGER PRIMARY KEY)")
    out = source.with_name("other.yaml")
    said = RUN.invoke(policy_app, ["init", str(source), "--out", str(out), "--yes", flag, "users"])
    assert said.exit_code == 0, said.output
    assert load_file(out).policy.unit_table != TableName("public", "users")
    out.unlink()
    with pytest.raises(PolicyError, match="names the people to protect"):
        RUN.invoke(
            policy_app,
            ["init", str(source), "--out", str(out), "--yes", flag, "users", "--unit", "users.user_id"],
            catch_exceptions=False,
        )


REPORTED = "CREATE TABLE answers (day DATE, district VARCHAR, ill BOOLEAN)"
STORED = "CREATE TABLE uses (day DATE, region VARCHAR, emoji_r VARCHAR, hours_r INTEGER)"


@pytest.mark.parametrize(
    ("make", "asked", "shown"),
    [
        ([REPORTED], ["answers"], {"answers": {"ill"}}),
        ([STORED], ["uses"], {"uses": {"emoji", "hours"}}),
        (
            [REPORTED, STORED, "CREATE TABLE names (name VARCHAR)"],
            ["uses", "answers"],
            {"answers": {"ill"}, "uses": {"emoji", "hours"}},
        ),
        ([REPORTED, "CREATE TABLE patients (patient_id INTEGER PRIMARY KEY, sex VARCHAR)"], ["answers"], {"answers": {"ill"}}),
    ],
    ids=["a coin", "stored by other names", "two tables", "beside people"],
)
def test_tables_of_reports(tmp_path: Path, make: list[str], asked: list[str], shown: dict[str, set[str]]) -> None:
    """Drafted where the author names them, alone or beside people; nobody has said what is plain, so nothing is but the day."""
    with duckdb.connect(str(tmp_path / "phones.duckdb")) as connection:
        for statement in make:
            connection.execute(statement)
    out = tmp_path / "phones.yaml"
    options = [part for name in asked for part in ("--reports", name)]
    done = RUN.invoke(policy_app, ["init", str(tmp_path / "phones.duckdb"), "--out", str(out), "--yes", *options])
    assert done.exit_code == 0, done.output
    policy = load_file(out).policy
    tables = {name.name: table for name, table in policy.tables.items() if table.reports is not None}
    assert {name: {c for c, p in table.columns.items() if p.randomised} for name, table in tables.items()} == shown
    assert {c for table in tables.values() for c, p in table.columns.items() if p.plain} == {"day"}
    assert (policy.unit_table is None) == ("patients" not in str(make))
    assert "TODO" in out.read_text()
    assert RUN.invoke(policy_app, ["check", str(out)]).exit_code == 0


def test_what_looks_like_reports_is_left_out_and_said_to(tmp_path: Path, source: Path) -> None:
    with duckdb.connect(str(source)) as connection:
        connection.execute(STORED)
    out = tmp_path / "clinic.yaml"
    assert RUN.invoke(policy_app, ["init", str(source), "--out", str(out), "--yes"]).exit_code == 0
    assert "dpproxy policy init --reports uses" in out.read_text()
    assert TableName("public", "uses") not in load_file(out).policy.tables
    refused = RUN.invoke(policy_app, ["init", str(source), "--out", f"{out}2", "--yes", "--reports", "nothing"])
    assert refused.exit_code != 0
