"""How an allotment is spent: through a proxy of the draft, within a role of its own, divided over what is asked."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from dpproxy.authoring import paid_session
from dpproxy.authoring.draft import Frame
from dpproxy.authoring.paid_session import Draft, measurements
from dpproxy.policy.load import load_file
from dpproxy.policy.model import Policy
from dpproxy.serve.launch import Proxy
from tests.worlds.clinic import CATALOG, DECIDED, PEOPLE, VISITS

EPSILON = Decimal(2)
ANSWERS = {
    'SELECT count(DISTINCT t0."person_id") FROM': [(1000,)],
    '"sex"': [("F", 500), ("M", 500)],
    't0."age", count': [(20, 100), (70, 100)],
    't0."ward", count': [(1, 600), (2, 600)],
    't0."age")': [("18", "91")],
    't0."day")': [("2021-01-01", "2022-05-05")],
    't0."cost")': [("1", "9")],
    "ORDER BY n)": [("3",)],
}


class Session:
    """Answers as a proxy would, keeps what was spent, refuses what has no answer here."""

    def __init__(self) -> None:
        self.epsilon, self.spent = Decimal(0), list[tuple[str, Decimal]]()

    async def execute(self, sql: str, *arguments: str) -> None:
        assert "dpproxy.epsilon" in sql
        self.epsilon = Decimal(arguments[0])

    async def fetch(self, sql: str) -> Sequence[tuple[Any, ...]]:
        if sql.startswith("EXPLAIN"):
            return [(json.dumps([{"Privacy Plan": {"Measurements": [{"Outputs": [{"Within": 5}]}]}}]),)]
        for part, rows in ANSWERS.items():
            if part in sql:
                self.spent.append((sql, self.epsilon))
                return rows
        raise asyncpg.FeatureNotSupportedError("not answered here")

    async def close(self) -> None:
        pass


def test_an_allotment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    session, served = Session(), list[Policy]()

    @contextlib.contextmanager
    def launched(policies: Sequence[Path], state: Path) -> Iterator[Proxy]:
        served.append(load_file(policies[0]).policy)
        yield Proxy(None, "127.0.0.1", 1)  # type: ignore[arg-type]

    async def connect(**to: object) -> Session:
        return session

    monkeypatch.setattr(paid_session, "launched", launched)
    monkeypatch.setattr(asyncpg, "connect", connect)
    made = Draft(CATALOG, {}, DECIDED, Frame("clinic", "{ duckdb: clinic.duckdb }", "ada", "unused"))
    said: list[str] = []

    def agreed(forecast: str) -> bool:
        assert not session.spent, "nothing is spent before it is agreed to"
        said.append(forecast)
        return True

    found = measurements(made, EPSILON, tmp_path, tmp_path / "state", agreed)
    assert re.match(r"epsilon 2 is to be spent on \d+ questions; it can tell:\n- how many \w+ have rows in a table", said[0])
    (role,) = served[0].roles.values()
    assert (role.name, role.budget.epsilon, role.budget.every) == ("init", 2_000_000, "never")
    assert list(tmp_path.iterdir()) == [], "the draft that was served is gone"
    assert found.values == {(PEOPLE, "sex"): ("F", "M"), (VISITS, "ward"): (1, 2)}
    assert set(found.ranges) == {(PEOPLE, "age"), (VISITS, "day"), (VISITS, "cost")}, (
        "twenty and seventy alone leave most people out"
    )
    assert found.bounds[VISITS] == (3, 3)
    assert 'not measured: SELECT t0."drug"' in capsys.readouterr().err
    spent = sum(epsilon for _, epsilon in session.spent)
    assert EPSILON * 9 / 10 < spent <= EPSILON, "what was refused goes to the ends"
    shares = {part: epsilon for sql, epsilon in session.spent for part in ANSWERS if part in sql}
    assert shares['t0."age")'] == shares['t0."day")'] > shares['"sex"'] > shares['SELECT count(DISTINCT t0."person_id") FROM']
    session.spent.clear()
    assert measurements(made, EPSILON, tmp_path, tmp_path / "state", lambda forecast: False).bounds == DECIDED.bounds
    assert session.spent == [], "who says no is charged nothing"
