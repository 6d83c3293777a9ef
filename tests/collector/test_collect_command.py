"""The commands as the page has them, one after the other, with an app that reports; and what they say of what is wrong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import psycopg
import pytest
from typer.testing import CliRunner

from dpproxy import collect
from dpproxy.cli import commands
from dpproxy.collect.questions import question_of
from dpproxy.errors import OperatorError
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import Proxy, launched
from tests.collect.device import Clock
from tests.collector.world import batch, write

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/how-to/collect.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.S)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's policy and tables, in the folder where commands are typed."""
    (yaml,), (sql,) = blocks("yaml"), blocks("sql")
    (tmp_path / "phones.yaml").write_text(yaml.replace("SCRAM-SHA-256$4096:...", make_verifier("ada")))
    with duckdb.connect(tmp_path / "reports.duckdb") as connection:
        connection.execute(sql)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and standard output, or what an operator is told."""
    done = CliRunner().invoke(commands, ["collect", *arguments])
    if isinstance(done.exception, OperatorError):
        return 1, str(done.exception)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


def typed(line: str, folder: Path) -> tuple[int, str]:
    """A line of the page."""
    _, *arguments = line.replace("/var/lib/dpproxy-collect", str(folder / "state")).split(" > ")[0].split()[1:]
    return run(*arguments)


def test_the_page_word_by_word(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, file, check_file, serve, load = [line for block in blocks("sh") for line in block.splitlines()]
    assert typed(check, folder)[0] == 0
    assert file.endswith("> emoji.claim.json")
    (folder / "emoji.claim.json").write_text(typed(file, folder)[1])
    assert typed(check_file, folder) == (
        0,
        typed(check, folder)[1].splitlines()[0] + "\nok\temoji.claim.json\tclaim 1 of emoji_reports\n",
    )
    command = serve.replace("/var/lib/dpproxy-collect", str(folder / "state")).replace(":8443", ":0").split()[1:]
    process = subprocess.Popen([sys.executable, "-m", "dpproxy", *command], stderr=subprocess.PIPE, text=True, cwd=folder)
    assert process.stderr is not None
    try:
        started = process.stderr.readline()
        assert started.startswith("collecting on http://127.0.0.1:")
        _report_as_the_page_does(folder, started.split()[-1])
    finally:
        process.terminate()
    assert process.wait() == 0
    assert process.stderr.read() == ""
    assert typed(load, folder) == (0, "1 segments loaded\n")
    with duckdb.connect(folder / "reports.duckdb") as connection:
        ((region, emoji),) = connection.execute("SELECT region, emoji_r FROM emoji_reports").fetchall()
    assert region == "north"
    assert emoji in ("😀", "😂", "😢", "🎉")
    assert typed(load, folder) == (0, "0 segments loaded\n")


def _report_as_the_page_does(folder: Path, url: str) -> None:
    """Days pass between the lines: an event is posted when its day is over and its moment has come."""
    clock = Clock()
    build, saw, send, told, forget = blocks("python")[0].split("\n\n")[1].strip().splitlines()
    names = {"Device": lambda *a, **k: collect.Device(*a, **k, clock=clock)}
    exec(build, names)
    exec(saw, names)
    for _ in range(3):
        exec(send.replace("http://127.0.0.1:8443", url), names)
        clock.next_day()
    exec(told, names)
    assert names["account"].forever == 4  # type: ignore[attr-defined]
    exec(forget, names)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["file", "phones.yaml", "emoji"], "no table of reports is named emoji: there are emoji_reports"),
        (["file", "phones.yaml", "emoji_reports", "--claim", "7"], "has no claim 7: there are 1"),
        (["load", "phones.yaml", "--to", "mysql://x"], "PostgreSQL"),
        (["load", "phones.yaml", "--to", "missing.duckdb"], "0 segments loaded"),
        (["serve", "phones.yaml", "--listen", "0.0.0.0:0"], "reports travel by TLS"),
        (["serve", "phones.yaml", "--listen", "x"], "is not HOST:PORT"),
        (["serve", "phones.yaml", "--tls-cert", "a"], "a certificate needs its key"),
        (["check", "phones.yaml", "--to", "missing.duckdb"], "wrong\tstore"),
    ],
)
def test_what_is_wrong_is_said(folder: Path, arguments: list[str], said: str) -> None:
    _, text = run(*arguments)
    assert said in text


def test_a_stale_file_is_named(folder: Path) -> None:
    file = json.loads(run("file", "phones.yaml", "emoji_reports")[1])
    policy = folder / "phones.yaml"
    with duckdb.connect(folder / "reports.duckdb") as connection:
        connection.execute("INSERT INTO emojis VALUES (5, '🦆')")
    (folder / "old.json").write_text(json.dumps(file))
    assert run("check", "phones.yaml", "--file", "old.json")[0] == 0  # a list that grows leaves a claim true
    policy.write_text(policy.read_text().replace("count: 4", "count: 5"))
    code, said = run("check", "phones.yaml", "--file", "old.json")
    assert (code, said.splitlines()[1]) == (
        1,
        "wrong\told.json\tits claim is none of emoji_reports: a stale list of values, mechanism or epsilon",
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DELETE FROM emojis WHERE id = 4", "has 3 values, and the policy says 4"),
        ("CREATE TABLE copy AS FROM emojis; DROP TABLE emojis; ALTER TABLE copy RENAME TO emojis", "or has no primary key"),
        ("DROP TABLE emojis", "is not there"),
        ("ALTER TABLE emojis RENAME name TO word", "cannot be read"),
    ],
)
def test_a_list_that_cannot_be_read_is_named(folder: Path, change: str, said: str) -> None:
    with duckdb.connect(folder / "reports.duckdb") as connection:
        connection.execute(change)
    code, text = run("check", "phones.yaml")
    assert (code, said in text) == (1, True), text


def ask(proxy: Proxy) -> tuple[int, dict[str, int]]:
    """What an analyst is told of all reports, and of each value."""
    with psycopg.connect(f"postgresql://ada:ada@{proxy.host}:{proxy.port}/phones", autocommit=True) as connection:
        (total,) = connection.execute("SELECT count(*) FROM emoji_reports").fetchall()
        each = connection.execute("SELECT emoji, count(*) FROM emoji_reports GROUP BY emoji").fetchall()
    return total[0], dict(each)


def test_a_proxy_that_is_asked_to_reload_counts_what_came(folder: Path) -> None:
    """A load replaces the file that a proxy reads: of 1,000 reports a load, all of one value, nearly all are estimated for it."""
    question = question_of(json.loads(run("file", "phones.yaml", "emoji_reports")[1]))
    value = question.value("😂")

    def bring(first: int, *options: str) -> None:
        reports = [["north", *json.loads(question.report(value))] for _ in range(1000)]
        write(folder / "state", *(batch(first + n, "emoji_reports", 1, reports[100 * n : 100 * n + 100]) for n in range(10)))
        code, said = run("load", "phones.yaml", "--to", "reports.duckdb", "--state", str(folder / "state"), *options)
        assert (code, said) == (0, "1 segments loaded\n")

    bring(0)
    with launched([folder / "phones.yaml"], folder / "proxy") as proxy:
        for thousand in (1, 2):
            total, each = ask(proxy)
            assert total == 1000 * thousand
            assert sum(each.values()) == total
            assert abs(each["😂"] - total) < 60 * thousand
            if thousand == 1:
                bring(100, "--proxy", str(folder / "proxy"))
