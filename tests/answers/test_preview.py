"""What EXPLAIN adds: as lines and as JSON the same facts, and nothing of what only others have seen."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace

from dpproxy.amounts import ATTO, MICRO
from dpproxy.answers.answer_parts import Source
from dpproxy.answers.delivery import Preview, foretold
from dpproxy.answers.standings import left
from dpproxy.ledger.ledger import BudgetExhausted, Standing
from dpproxy.privacy.loss import ZERO, Loss

MAY = dt.datetime(2024, 5, 15, 12, tzinfo=dt.UTC)
JUNE = dt.datetime(2024, 6, 1, tzinfo=dt.UTC)
ROLE = Standing("role", "analyst", "month", 3 * MICRO, 0, MICRO, 0, 2 * MICRO, 0, MICRO, 0, 1, JUNE)
NOTHING = Preview("exact", {}, ZERO, (), None)
TEXT = ["Privacy plan"]
JSON = ['[{"Privacy Plan": {"Measurements": []}}]']


def told(preview: Preview) -> dict[str, object]:
    (text,) = foretold(JSON, preview)
    (plan,) = json.loads(text)
    assert plan["Privacy Plan"]["Measurements"] == [], "what was there stays"
    return dict(plan["Privacy Plan"])


def test_nothing_stored() -> None:
    assert foretold(TEXT, NOTHING) == ["Privacy plan", "  Reuse: nothing stored answers this", "  Charge now: epsilon 0"]
    assert foretold(TEXT, replace(NOTHING, mode="off"))[1] == "  Reuse: off"
    assert told(NOTHING)["Reuse"] == {"Mode": "exact", "Stored": [], "Charge Now": {"Epsilon": 0.0}}


def test_what_is_stored_in_the_order_of_measurements() -> None:
    stored = {1: Source((MAY, JUNE), True), 0: Source((MAY,), False)}
    preview = replace(NOTHING, stored=stored, charge=Loss(MICRO // 2, ATTO // 1000))
    assert foretold(TEXT, preview)[1:] == [
        "  Reuse: measurement 1 as released at 2024-05-15 12:00:00 UTC, epsilon 0",
        "  Reuse: measurement 2 computed from what was released at 2024-05-15 12:00:00 UTC and 2024-06-01 00:00:00 UTC, epsilon 0",
        "  Charge now: epsilon 0.5 and delta 0.001",
    ]
    assert told(preview)["Reuse"] == {
        "Mode": "exact",
        "Stored": [
            {"Measurement": 1, "Released": [MAY.isoformat()], "Computed": False},
            {"Measurement": 2, "Released": [MAY.isoformat(), JUNE.isoformat()], "Computed": True},
        ],
        "Charge Now": {"Epsilon": 0.5, "Delta": 0.001},
    }


def test_what_is_left_and_what_refuses() -> None:
    refused = BudgetExhausted("role", (2 * MICRO, 0), JUNE, (3 * MICRO, 0), "shop")
    preview = replace(NOTHING, left=(ROLE,), refused=refused, errors={"n": 0.02, "total": 0.5})
    lines = foretold(TEXT, preview)
    assert lines[2] == "  Expected typical error: 2 % of n, 50 % of total, estimated from earlier answers to your role"
    assert lines[4] == "  Left: role analyst has epsilon 2 left until 2024-06-01"
    assert lines[5].startswith(
        "  Refused: the privacy budget of your role does not cover this statement (the statement costs epsilon 3;"
    )
    json_ = told(preview)
    assert json_["Left"] == [{"Scope": "role", "Name": "analyst", "Resets": JUNE.isoformat(), "Epsilon": 2.0}]
    assert (json_["Refused"], json_["Expected Relative Error"]) == ("role", {"n": 0.02, "total": 0.5})


def test_the_moment_of_an_extract() -> None:
    preview = replace(NOTHING, extract=MAY)
    assert foretold(TEXT, preview)[1] == "  Data: an extract of the database as it was at 2024-05-15 12:00:00 UTC"
    assert told(preview)["Extract Of"] == "2024-05-15T12:00:00+00:00"
    assert "Extract Of" not in told(NOTHING)


def test_a_budget_without_a_window_and_one_with_delta() -> None:
    assert left(replace(ROLE, scope="user", name="ada", resets=None, left_delta=ATTO // 100)) == (
        "user ada has epsilon 2 and delta 0.01 left"
    )
