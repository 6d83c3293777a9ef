"""The commands `ledger` and `budget`, as operators type them, on both kinds of ledger."""

from __future__ import annotations

import datetime as dt
import json
import shlex
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import duckdb
import psycopg
import pytest
from scratch_postgres import scratch_server
from typer.testing import CliRunner

from dpproxy.answers.data_identity import data_of
from dpproxy.answers.standings import limit
from dpproxy.cli import commands
from dpproxy.ledger.ledger import BudgetExhausted, ChargeRequest, LedgerError, Limits, charge
from dpproxy.policy.load import load_file
from dpproxy.policy.people import make_verifier
from dpproxy.privacy.loss import Loss
from dpproxy.records.place import ledger_key, place_of, read_secret
from dpproxy.serve.launch import LaunchError, launched

PAGE = Path(__file__).resolve().parents[1] / "docs/how-to/backup.md"
POLICY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 10, delta: 0, every: never }
tables:
  people: { unit: id, columns: { id: unit, region: { values: [east, west] } } }
roles:
  analyst: { budget: { epsilon: 1, delta: 0, every: year }, query: { epsilon: 0.5, max_epsilon: 1 } }
users:
  ada: { role: analyst, password: "VERIFIER" }
  bob: { role: analyst, password: "VERIFIER", budget: { epsilon: 0.5 } }
"""


@dataclass(frozen=True)
class Done:
    stdout: str
    stderr: str


Run = Callable[..., Done]


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    with duckdb.connect(str(tmp_path / "town.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT i AS id, 'east' AS region FROM range(100) AS t(i)")
    (tmp_path / "town.yaml").write_text(POLICY.replace("VERIFIER", make_verifier("x")))
    (tmp_path / "key").write_text("a secret of more than sixteen bytes\n")
    (tmp_path / "other").write_text("another secret of that length\n")
    return tmp_path / "town.yaml"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """A command in this process; what the program would print as one line of error is `stderr`."""

    def call(*words: str, fails: bool = False) -> Done:
        done = CliRunner().invoke(commands, [*words, "--state", str(tmp_path / "state")])
        assert (done.exit_code != 0) == fails, done.output
        assert done.exception is None or isinstance(done.exception, (SystemExit, LedgerError)), done.exception
        said = str(done.exception) if isinstance(done.exception, LedgerError) else done.stderr
        return Done(done.stdout, said)

    return call


def charged(policy: Path, count: int, user: str = "ada", key: Path | None = None) -> None:
    """`count` charges of epsilon 0.5 in the ledger, made as a proxy over the policy makes them. Raises BudgetExhausted."""
    given, now = load_file(policy).policy, dt.datetime.now(dt.UTC)
    asker, loss = given.users[user], Loss(500_000)
    role = given.roles[asker.role]
    own = limit(asker.budget) if asker.budget is not None else None
    limits = Limits(limit(role.budget), limit(given.budget), own, role.query.max_epsilon)
    (policy.parent / "state").mkdir(exist_ok=True)
    with closing(place_of(None, policy.parent / "state").open(ledger_key(read_secret(key)))) as ledger:
        ledger.name(given.dataset, data_of(given), now)
        for _ in range(count):
            names = (str(uuid.uuid4()), given.dataset, role.name, user)
            charge(ledger, ChargeRequest(*names, loss, loss, limits, "0" * 64, now, given.digest))


def ask(policy: Path, where: str) -> None:
    """One answer of epsilon 0.5 from a proxy started for it."""
    with launched([policy], policy.parent / "state") as proxy:
        dsn = f"host={proxy.host} port={proxy.port} user=ada password=x dbname=town"
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute(f"SELECT count(*) FROM people WHERE {where}")  # type: ignore[arg-type]


def test_what_is_spent(policy: Path, run: Run) -> None:
    charged(policy, 1, user="bob")
    for words in (("budget", str(policy)), ("budget", "show", str(policy))):
        lines = [line.split("\t")[1:7] for line in run(*words).stdout.splitlines()[1:]]
        assert lines == [
            ["role", "analyst", "year", "0.5", "1", "0.5"],
            ["user", "bob", "never", "0.5", "0.5", "0"],
            ["dataset", "town", "never", "0.5", "10", "9.5"],
        ]


def test_a_grant_opens_the_account_and_stays_in_the_record(policy: Path, run: Run) -> None:
    charged(policy, 2)
    with pytest.raises(BudgetExhausted):
        charged(policy, 1)
    run("budget", "grant", str(policy), "--role", "analyst", "--epsilon", "0.5", "--reason", "audit of May")
    ask(policy, "region <> 'x'")
    entries = [json.loads(line) for line in run("ledger", "show").stdout.splitlines()]
    granted = [e for e in entries if e["kind"] == "grant"]
    assert [(g["scope"], g["name"], g["epsilon"], g["reason"]) for g in granted] == [("role", "analyst", 500_000, "audit of May")]
    charges = [(e["role"], e["user"], e["loss"], e["policy"]) for e in entries if e["kind"] == "charge"]
    assert charges == charges[:1] * 3, "a proxy charges as `charged` does"


@pytest.mark.parametrize(
    "words",
    [
        ("--reason", "r", "--epsilon", "1"),
        ("--reason", "r", "--epsilon", "1", "--role", "analyst", "--all"),
        ("--reason", "r", "--epsilon", "1", "--role", "nobody"),
        ("--reason", "r", "--epsilon", "1", "--user", "ada"),
        ("--reason", "r", "--epsilon", "-1", "--all"),
        ("--reason", "r", "--epsilon", "NaN", "--all"),
        ("--reason", "r", "--epsilon", "much", "--all"),
        ("--reason", "r", "--all"),
        ("--reason", "  ", "--epsilon", "1", "--all"),
        ("--epsilon", "1", "--all"),
    ],
)
def test_a_grant_says_who_and_why(policy: Path, run: Run, words: tuple[str, ...]) -> None:
    (policy.parent / "state").mkdir()
    assert run("budget", "grant", str(policy), *words, fails=True).stderr


def test_export_and_verify(policy: Path, run: Run, tmp_path: Path) -> None:
    key, out = str(tmp_path / "key"), str(tmp_path / "ledger.jsonl")
    charged(policy, 2)
    said = run("ledger", "verify").stdout
    assert said.startswith("4 entries, the last of 20")
    assert "seal" in run("ledger", "export", "--key-file", key, fails=True).stderr
    run("ledger", "export", "--out", out)
    assert run("ledger", "verify", out).stdout == said
    assert "exists" in run("ledger", "export", "--out", out, fails=True).stderr
    assert run("ledger", "export").stdout == Path(out).read_text()
    changed = Path(out).read_text().replace("500000", "400000", 1)
    Path(out).write_text(changed)
    assert "changed" in run("ledger", "verify", out, fails=True).stderr
    assert "cannot be read" in run("ledger", "verify", f"{out}.none", fails=True).stderr


def test_a_sealed_ledger(policy: Path, run: Run, tmp_path: Path) -> None:
    key, other, out = (str(tmp_path / name) for name in ("key", "other", "ledger.jsonl"))
    charged(policy, 1, key=Path(key))
    run("ledger", "verify", "--key-file", key)
    assert "seal" in run("ledger", "verify", "--key-file", other, fails=True).stderr
    run("ledger", "export", "--out", out, "--key-file", key)
    run("ledger", "verify", out, "--key-file", key)
    assert "not signed with this key" in run("ledger", "verify", out, "--key-file", other, fails=True).stderr


def test_a_key_file_that_is_none(policy: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "short").write_text("short\n")
    assert "fewer than 16 bytes" in run("ledger", "verify", "--key-file", str(tmp_path / "short"), fails=True).stderr
    assert "cannot be read" in run("ledger", "verify", "--key-file", str(tmp_path / "none"), fails=True).stderr


def test_show(policy: Path, run: Run) -> None:
    charged(policy, 2)
    assert len(run("ledger", "show", "--role", "analyst").stdout.splitlines()) == 2
    assert run("ledger", "show", "--role", "nobody").stdout == ""
    assert run("ledger", "show", "--since", "2999-01-01").stdout == ""
    assert len(run("ledger", "show", "--since", "2020-01-01").stdout.splitlines()) == 3
    named, entry = map(json.loads, run("ledger", "show").stdout.splitlines()[:2])
    assert (named["kind"], named["dataset"], named["account"], named["reason"]) == ("named", "town", "town", "")
    assert (entry["role"], entry["user"], entry["loss"]) == ("analyst", "ada", {"epsilon": 500_000, "delta": 0})


def test_backup_and_repair(policy: Path, run: Run, tmp_path: Path) -> None:
    charged(policy, 1)
    assert "whole" in run("ledger", "repair", "--reason", "just in case").stdout
    copy = tmp_path / "copy.sqlite"
    run("ledger", "backup", str(copy))
    assert "exists" in run("ledger", "backup", str(copy), fails=True).stderr
    run("ledger", "verify", "--ledger", str(copy))
    charged(policy, 1)
    copy.replace(tmp_path / "state" / "ledger.sqlite")
    for suffix in ("-wal", "-shm"):
        (tmp_path / "state" / f"ledger.sqlite{suffix}").unlink(missing_ok=True)
    with pytest.raises(LaunchError, match="repair"), launched([policy], policy.parent / "state"):
        pass
    assert "entries" in run("ledger", "repair", "--reason", "restored from backup").stdout
    spent = [line.split("\t")[4:7] for line in run("budget", str(policy)).stdout.splitlines()[1:]]
    assert spent[0] == ["1", "1", "0"], "what may have been lost is taken as spent"


def test_the_page_of_a_restore_leads_to_answers(policy: Path, run: Run, tmp_path: Path) -> None:
    """Its `grant`s, as they stand there; after the first of them alone the other account has nothing left, which it says."""
    charged(policy, 1)
    copy = tmp_path / "copy.sqlite"
    run("ledger", "backup", str(copy))
    charged(policy, 1)
    copy.replace(tmp_path / "state" / "ledger.sqlite")
    for suffix in ("-wal", "-shm"):
        (tmp_path / "state" / f"ledger.sqlite{suffix}").unlink(missing_ok=True)
    run("ledger", "repair", "--reason", "restored from backup")
    said = []
    for line in PAGE.read_text().splitlines():
        if line.startswith("dpproxy budget grant"):
            words = shlex.split(line)[1:]
            for option in ("--state", "--key-file"):
                del words[words.index(option) : words.index(option) + 2]
            said.append(run(*[str(policy) if word == "people.yaml" else word for word in words]).stderr)
    assert ["dataset's budget" in text for text in said] == [True, False]
    ask(policy, "region <> 'x'")


def test_who_else_has_nothing_left(policy: Path, run: Run) -> None:
    charged(policy, 1)
    run("ledger", "clock", "--dataset", "town", "--reason", "r")
    (policy.parent / "state" / "ledger.sqlite.anchor").unlink()
    run("ledger", "repair", "--reason", "r")
    grant = ("budget", "grant", str(policy), "--epsilon", "1", "--reason", "r")
    assert "role `analyst`'s budget (`--role analyst`)" in run(*grant, "--user", "bob").stderr
    assert "role `analyst`'s budget (`--role analyst`)" in run(*grant, "--all").stderr
    assert run(*grant, "--role", "analyst").stderr == ""


def test_clock(policy: Path, run: Run) -> None:
    charged(policy, 1)
    run("ledger", "clock", "--dataset", "town", "--reason", "the battery was changed")
    assert json.loads(run("ledger", "show").stdout.splitlines()[-1])["kind"] == "clock"


def test_what_needs_the_proxy_stopped_says_so(policy: Path, run: Run) -> None:
    with launched([policy], policy.parent / "state"):
        refused = run("ledger", "name", str(policy), "--reason", "r", fails=True)
        assert "another dpproxy is using this ledger" in refused.stderr
        run("budget", str(policy))
        run("ledger", "verify")


@pytest.fixture
def dsn_of_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with scratch_server(tmp_path_factory.mktemp("ledger")) as server:
        yield server.dsn()


def test_a_ledger_in_postgresql(policy: Path, run: Run, dsn_of_ledger: str) -> None:
    """Two proxies on one ledger share every account; grants need nobody stopped."""
    at = {"DPPROXY_LEDGER": dsn_of_ledger}
    state = policy.parent
    with launched([policy], state / "one", env=at) as one, launched([policy], state / "two", env=at) as two:
        for i, proxy in enumerate((one, two)):
            dsn = f"host={proxy.host} port={proxy.port} user=ada password=x dbname=town"
            with psycopg.connect(dsn, autocommit=True) as connection:
                connection.execute(f"SELECT count(*) FROM people WHERE region <> 'x{i}'")  # type: ignore[arg-type]
        words = ("--ledger", dsn_of_ledger)
        with psycopg.connect(dsn, autocommit=True) as connection:
            with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
                connection.execute("SELECT count(*) FROM people WHERE region <> 'x2'")
            run("budget", "grant", str(policy), "--role", "analyst", "--epsilon", "0.5", "--reason", "r", *words)
            connection.execute("SELECT count(*) FROM people WHERE region <> 'x2'")
        lines = run("budget", str(policy), *words).stdout.splitlines()
        assert lines[1].split("\t")[4:7] == ["1.5", "1.5", "0"]
    assert run("ledger", "verify", "--dataset", "town", *words).stdout.startswith("5 entries")
    assert "say which one" in run("ledger", "verify", *words, fails=True).stderr
    assert "own tools" in run("ledger", "backup", str(state / "copy"), *words, fails=True).stderr


def test_a_renamed_dataset_needs_a_word(policy: Path, run: Run) -> None:
    """The finding: under another name over the same state, `dpproxy budget` showed nothing spent, and the proxy charged anew."""
    charged(policy, 1)
    renamed = policy.with_name("city.yaml")
    renamed.write_text(policy.read_text().replace("dataset: town", "dataset: city").replace("  analyst: {", "  clerk: {"))
    renamed.write_text(renamed.read_text().replace("role: analyst", "role: clerk"))
    shown = run("budget", str(renamed))
    assert "these data were charged as dataset `town`" in shown.stderr
    with pytest.raises(LaunchError, match=r"charged as `town`"), launched([renamed], policy.parent / "state"):
        pass
    assert (
        "charged as `town`" in run("budget", "grant", str(renamed), "--all", "--epsilon", "1", "--reason", "r", fails=True).stderr
    )
    run("ledger", "name", str(renamed), "--as", "town", "--reason", "renamed in May")
    with launched([renamed], policy.parent / "state"):
        pass
    shown = run("budget", str(renamed))
    assert "charges the accounts of `town`" in shown.stderr
    assert "role `analyst` has spent epsilon 0.5 and is not in the policy" in shown.stderr
    assert shown.stdout.splitlines()[-1].split("\t")[2:5] == ["city", "never", "0.5"]
