"""A proxy that serves, looked at and steered from the command line and by HTTP; and what its log says of all that.

One proxy for the whole file, in the order of the file; the last test ends it. What a statement holds, and what the data hold, must
stand nowhere in what is logged: the statements and data of this file are made of words that are found nowhere else.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pytest
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.console.tokens import digest, digests
from dpproxy.ledger.ledger import LedgerError
from dpproxy.operations.audit import FILE, account
from dpproxy.operations.requests import OperationError
from dpproxy.policy.people import make_verifier
from dpproxy.serve.launch import Proxy, launched
from dpproxy.telemetry.events import COMMON, EVENTS
from tests.worlds.running import SAFETY, Running

POLICY = """
version: 1
dataset: town
backend: { duckdb: town.duckdb }
privacy_unit: { name: person, key: people.id }
budget: { epsilon: 100, delta: 0, every: never }
tables:
  people: { unit: id, columns: { id: unit, region: { values: [east, west] }, income: { range: [0, 7654321] }, email: hidden } }
roles:
  analyst: { budget: { epsilon: 1.5, delta: 0, every: never, warn: [40, 80] }, query: { epsilon: 0.5, max_epsilon: 1 } }
  clerk: { budget: { epsilon: 1, delta: 0, every: never }, query: { epsilon: 0.5, max_epsilon: 1 } }
users:
  ada: { role: analyst, password: "VERIFIER" }
  eve: { role: clerk, password: "VERIFIER" }
"""
TOKEN = "a token of operators"
SECRETS = ("quokka", "2718281", "7654321", "wombat", "bandicoot", "sesame", "numbat", "echidna", "314159")
"""Of the data: the people's addresses, an income. Of statements: literals, names, a comment. A password, a user that is none."""


@dataclass(frozen=True)
class Serving:
    proxy: Proxy
    policy: Path
    state: Path
    metrics: str

    def connect(self, user: str = "ada", password: str = "sesame") -> psycopg.Connection[Any]:
        where = f"host={self.proxy.host} port={self.proxy.port} user={user} dbname=town"
        return psycopg.connect(where, password=password, autocommit=True)

    def run(self, *words: str, fails: bool = False, ledger: bool = False) -> str:
        """A command; what the program would print as one line of error where it `fails`."""
        done = CliRunner().invoke(commands, [*words, "--state", str(self.state)])
        assert (done.exit_code != 0) == fails, done.output
        assert done.exception is None or isinstance(done.exception, SystemExit | OperationError | LedgerError)
        return str(done.exception) if isinstance(done.exception, OperationError | LedgerError) else done.stdout

    def rows(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run(*words).splitlines()]

    def lines(self) -> list[dict[str, Any]]:
        """Of the log."""
        return [json.loads(line) for line in list(self.proxy.said) if line.startswith("{")]

    def logged(self, true: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The line, awaited."""
        deadline = time.monotonic() + SAFETY
        while time.monotonic() < deadline:
            if found := [line for line in self.lines() if true(line)]:
                return found[-1]
            time.sleep(0.01)
        raise AssertionError("\n".join(self.proxy.said))

    def get(self, path: str, token: str = TOKEN) -> tuple[int, str]:
        request = urllib.request.Request(f"http://{self.metrics}{path}", headers={"Authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=SAFETY) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str) -> float:
        (found,) = (line for line in self.get("/metrics")[1].splitlines() if line.startswith(f"{name} "))
        return float(found.rpartition(" ")[2])


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    folder = tmp_path_factory.mktemp("town")
    with duckdb.connect(str(folder / "town.duckdb")) as connection:
        people = "SELECT i AS id, 'east' AS region, 2718281 AS income, 'quokka' || i AS email FROM range(50) AS t(i)"
        connection.execute(f"CREATE TABLE people AS {people}")
    policy, token = folder / "town.yaml", folder / "token"
    policy.write_text(POLICY.replace("VERIFIER", make_verifier("sesame")))
    token.write_text(TOKEN)
    options = ("--metrics", "127.0.0.1:0", "--metrics-token-file", str(token), "--log-level", "debug")
    with launched([policy], folder / "state", options=options) as proxy:
        found = next(m for line in proxy.said if (m := re.fullmatch(r"metrics on (\S+)", line)))
        yield Serving(proxy, policy, folder / "state", found[1])
    assert len(proxy.said) < (proxy.said.maxlen or 0), "all of the log is looked at"
    said = "\n".join(proxy.said)
    assert not [secret for secret in SECRETS if secret in said], said


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def test_each_statement_is_one_line(town: Serving) -> None:
    count = "SELECT region, count(*) FROM people WHERE income < 314159 GROUP BY 1"
    wrong = [
        "SELECT wombat FROM people",
        "SELECT email FROM people",
        "SELECT * /* bandicoot */ FROM people WHERE region = 'numbat'",
    ]
    with town.connect() as connection:
        for sql in (count, count, f"EXPLAIN {count}"):
            connection.execute(sql).fetchall()  # type: ignore[arg-type]
        connection.execute("SELECT count(*) FROM people WHERE region = %s", ["numbat"]).fetchall()
        for sql in wrong:
            with pytest.raises(psycopg.Error):
                connection.execute(sql)  # type: ignore[arg-type]
        with pytest.raises(psycopg.Error):
            connection.execute("SELECT wombat FROM people WHERE region = %s", ["numbat"])
        session = connection.info.backend_pid
    town.logged(lambda line: line["event"] == "session ended")
    lines = [line for line in town.lines() if line["event"] == "statement"]
    assert [line["verdict"] for line in lines] == ["answered", "reused", "explained", "answered", *["refused"] * 4]
    answered, reused = lines[:2]
    assert {line["session"] for line in lines} == {session}
    assert {(line["dataset"], line["role"], line["user"]) for line in lines} == {("town", "analyst", "ada")}
    assert (answered["statement"], answered["epsilon"], answered["rows"]) == (hash_of(count), 0.5, 2)
    assert (reused["epsilon"], reused["saved"], reused["reused"]) == (0.0, 0.5, 1)
    refused = [(line["code"], line["reason_class"], line["statement"]) for line in lines[4:7]]
    assert refused == [
        ("42703", "sql", hash_of(wrong[0])),
        ("42703", "sql", hash_of(wrong[1])),
        ("42501", "rights", hash_of(wrong[2])),
    ]
    assert (lines[4]["reason"], lines[6]["reason"]) == ("facade", "plan.refusals.rows_of_people")
    assert all(len(line["policy"]) == 16 and line["milliseconds"] >= 0 for line in lines)


def test_logins_that_fail_tell_no_name_that_a_stranger_typed(town: Serving) -> None:
    for user, password in (("ada", "echidna"), ("echidna", "sesame")):
        with pytest.raises(psycopg.OperationalError):
            town.connect(user, password)
    town.logged(lambda line: line["event"] == "login failed" and line["user_class"] == "unknown")
    failed = [line for line in town.lines() if line["event"] == "login failed"]
    assert [(line.get("user"), line["user_class"], line["reason"]) for line in failed] == [
        ("ada", "known", "password"),
        (None, "unknown", "password"),
    ]
    assert {line["address"] for line in failed} == {"127.0.0.1"}
    assert town.metric('dpproxy_logins_total{dataset="town",outcome="password",process="0"}') == 2


def test_who_is_there_and_what_they_do(town: Serving) -> None:
    with town.connect() as connection:
        running = Running(connection, 3600)
        (session,) = [s for s in town.rows("admin", "who", "--json") if s["state"] == "statement"]
        assert (session["session"], session["user"], session["address"]) == (connection.info.backend_pid, "ada", "127.0.0.1")
        assert "127.0.0.1\tno\t" in town.run("admin", "who")
        town.run("admin", "cancel", str(session["session"]))
        assert running.ended() == "57014"
        town.run("admin", "cancel", str(session["session"]), "--end")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    assert "there is no session 1:" in town.run("admin", "cancel", "1", fails=True)


def test_metrics_health_and_readiness(town: Serving) -> None:
    labels = '{dataset="town",name="analyst",scope="role"}'
    assert town.metric(f"dpproxy_budget_epsilon_spent{labels}") == pytest.approx(1, abs=1e-5)
    assert town.metric(f"dpproxy_budget_warning_percent{labels}") == 40
    assert town.metric('dpproxy_epsilon_saved_total{dataset="town",process="0",role="analyst"}') == 0.5
    assert town.metric('dpproxy_statements_total{dataset="town",process="0",role="analyst",verdict="reused"}') == 1
    assert town.metric('dpproxy_part_up{part="facade",process="0",subject="town/clerk"}') == 1
    assert (town.get("/metrics", "wrong")[0], town.get("/")[0], town.get("/healthz", "")) == (401, 404, (200, "ok\n"))
    status, text = town.get("/ready", "")
    assert (status, json.loads(text)["ready"]) == (200, True)
    (found,) = town.rows("admin", "status")
    assert {check["part"] for check in found["checks"] if check["works"]} == {"facade", "backend", "ledger"}


def test_a_grant_while_it_serves(town: Serving) -> None:
    """The command is the same; a proxy that serves is asked, since the ledger is its own."""
    again = "SELECT count(*) + 1 FROM people WHERE region = 'west'"
    with town.connect() as connection:
        connection.execute("SET dpproxy.epsilon = 1")
        with pytest.raises(psycopg.errors.ConfigurationLimitExceeded):
            connection.execute(again)
        grant = (str(town.policy), "--role", "analyst", "--epsilon", "2")
        town.run("budget", "grant", *grant, "--reason", "wombat of May")
        town.run("admin", "budget", "grant", *grant, "--reason", "and June")
        connection.execute(again)
    refused = town.logged(lambda line: line.get("reason_class") == "budget")
    assert (refused["level"], refused["code"]) == ("warning", "53400")
    lines = [line.split("\t") for line in town.run("budget", str(town.policy), str(town.policy)).splitlines()]
    assert [line[:7] for line in lines if line[2] == "analyst"] == [["town", "role", "analyst", "never", "2", "5.5", "3.5"]] * 2
    assert "is not ahead" in town.run("ledger", "clock", "--wrong", "--dataset", "town", "--reason", "r", fails=True)
    town.run("ledger", "clock", "--dataset", "town", "--reason", "r")


def test_a_paused_role_is_answered_nothing(town: Serving) -> None:
    with town.connect() as ada, town.connect("eve") as eve:
        town.run("admin", "pause", "analyst", "--reason", "a lost laptop")
        with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState):
            ada.execute("SELECT region, count(*) FROM people WHERE income < 314159 GROUP BY 1")
        ada.execute("SELECT 1")
        eve.execute("SELECT count(*) FROM people")
        assert town.metric('dpproxy_paused_roles{dataset="town",role="analyst"}') == 1
        town.run("admin", "resume", "analyst")
        ada.execute("SELECT region, count(*) FROM people WHERE income < 314159 GROUP BY 1")
    assert town.logged(lambda line: line.get("reason_class") == "paused")["reason"] == "operations.pauses.Pause.refusal"


def test_a_reload_says_what_became_of_each_policy(town: Serving) -> None:
    before = town.policy.read_text()
    town.policy.write_text(before + "users_: {}\n")
    assert "unknown key `users_`" in town.run("admin", "reload", fails=True)
    assert town.metric('dpproxy_policy_reload_failed{dataset="town",process="0"}') == 1
    town.policy.write_text(before)
    assert town.run("admin", "reload").endswith("\tserved\n")
    assert town.metric('dpproxy_policy_reload_failed{dataset="town",process="0"}') == 0


def test_help_is_in_sql_and_its_examples_run_at_no_charge(town: Serving) -> None:
    with town.connect() as connection:
        before = connection.execute("SELECT epsilon_spent FROM dpproxy.budget").fetchall()
        rows = connection.execute("SELECT question, answer, example FROM dpproxy.help").fetchall()
        assert len({question for question, _, _ in rows}) == len(rows) > 10
        for _, _, example in rows:
            connection.execute(example)
        connection.execute("RESET ALL")
        assert connection.execute("SELECT epsilon_spent FROM dpproxy.budget").fetchall() == before
        found = dict(connection.execute("SELECT question, answer FROM dpproxy.help WHERE question LIKE 'What will%'").fetchall())
    assert "costs epsilon 0.5, and at most 1." in found["What will a statement cost, and how exact will it be?"]


def test_what_was_asked_last(town: Serving) -> None:
    with town.connect() as connection:
        connection.execute("SELECT region, count(*) FROM people WHERE income < 314159 GROUP BY 1")
    newest, *_ = town.rows("admin", "statements", "--count", "3", "--json")
    assert (newest["verdict"], newest["role"], newest["epsilon"]) == ("reused", "analyst", 0.0)
    assert town.run("admin", "statements").splitlines()[0].startswith("at\tdataset\trole\tuser\tstatement\tverdict\tepsilon")


SHAPES = {
    "statement": r"[0-9a-f]{16}",
    "policy": r"[0-9a-f]{16}",
    "code": r"[0-9A-Z]{5}",
    "reason_class": r"[a-z]+",
    "kind": r"[a-z_]+",
    "verdict": r"[a-z]+",
    "reason": r"[a-zA-Z_.]+(\.[a-zA-Z_]+)*|password",
    "address": r"127\.0\.0\.1",
}
PLACES = (
    "SELECT count(*) FROM people WHERE region = '{word}' AND income = {number}",
    "SELECT * FROM people WHERE email = '{word}'",
    "SELECT {word} FROM people",
    "SELECT count(*) AS {word} FROM {word}.people",
    "SELECT count(*) FROM people -- {word}",
    "SELECT sum(CASE region WHEN '{word}' THEN {number} END) FROM people",
    "SELECT string_agg(email, '{word}') FROM people",
    "SELECT count(*) FROM people WHERE region ~ '{word}(' OR income = {number}",
    "SELECT '{word}' || {number} FROM people LIMIT {number}",
    "SELECT avg(income) FILTER (WHERE region LIKE '{word}%') FROM people GROUP BY '{word}'",
    "SELECT count(*) FROM people WHERE income > '{word}'",
    "COPY (SELECT count(*) FROM people WHERE region = '{word}') TO '{word}'",
    "SET dpproxy.accuracy = '{word}'; SELECT count(*) FROM people",
    "PREPARE {word} AS SELECT count(*) FROM people WHERE region = '{word}' AND income < {number}",
    "SELECT '{word}",
)


def test_a_generated_run_leaves_no_literal(town: Serving) -> None:
    """Words and numbers that nobody could guess, at every place of statements that are answered and refused, by both protocols."""
    drawn: set[str] = set()
    with town.connect("eve") as connection:
        session = connection.info.backend_pid
        for place in PLACES:
            for prepare in (False, True):
                word = secrets.token_hex(6).translate(str.maketrans("0123456789", "ghijklmnop"))
                number = secrets.randbelow(10**9) + 10**9
                drawn |= {word, str(number)}
                with contextlib.suppress(psycopg.Error):
                    connection.execute(place.format(word=word, number=number), prepare=prepare)  # type: ignore[arg-type]
                connection.execute("RESET dpproxy.accuracy")
    town.logged(lambda line: line["event"] == "session ended" and line["session"] == session)
    lines = [line for line in town.lines() if line["event"] == "statement" and line["user"] == "eve"]
    assert len(lines) >= 2 * len(PLACES) - 4
    assert {line["verdict"] for line in lines} == {"answered", "reused", "refused"}
    said = "\n".join(town.proxy.said) + (town.state / "audit.jsonl").read_text()
    assert len(drawn) == 4 * len(PLACES)
    assert [one for one in drawn if one in said] == []


def test_every_line_is_in_the_list(town: Serving) -> None:
    lines = town.lines()
    assert {line["event"] for line in lines} >= {"statement", "login", "login failed", "operator", "session ended"}
    for line in lines:
        event = EVENTS[line["event"]]
        names = set(line) - set(COMMON)
        assert set(event.fields) <= names | {"error", "trace"}, line
        assert names <= {*event.fields, *event.optional}, line
        if line["event"] in ("statement", "login", "login failed"):
            wrong = {name for name, shape in SHAPES.items() if name in line and not re.fullmatch(shape, line[name])}
            assert not wrong, line


def test_tokens_of_operators_are_drawn_and_revoked(tmp_path: Path) -> None:
    def token(*words: str) -> str:
        done = CliRunner().invoke(commands, ["admin", "token", *words, "--state", str(tmp_path)])
        return done.stdout.strip() if done.exception is None else str(done.exception)

    shared = token()
    assert token("--new") not in ("", shared)
    eves = token("--for", "eve")
    assert digests(tmp_path) == {"eve": digest(eves)}
    assert token("--list") == "eve"
    assert "tokens of their own" in token()
    assert (token("--revoke", "eve"), token("--list")) == ("", "")
    lines = [json.loads(line) for line in (tmp_path / FILE).read_text().splitlines()]
    assert [(line["outcome"], line["operator"], line["by"]) for line in lines] == [
        (outcome, operator, account(os.getuid())) for outcome, operator in (("drawn", ""), ("drawn", "eve"), ("revoked", "eve"))
    ]


def test_a_drain_ends_it_and_all_is_in_the_audit_log(town: Serving) -> None:
    town.run("admin", "drain")
    assert town.proxy.process.wait(SAFETY) == 0
    audited = [json.loads(line) for line in (town.state / "audit.jsonl").read_text().splitlines()]
    actions = ["cancel", "cancel", "cancel", "grant", "grant", "clock", "pause", "resume", "reload", "reload", "drain"]
    assert [entry["action"] for entry in audited] == ["start", *actions, "stop"]
    assert {entry["by"] for entry in audited[1:-1]} == {account(os.getuid())}
    assert not list(town.state.glob("admin*.sock"))
    assert "no proxy serves" in town.run("admin", "who", fails=True)
