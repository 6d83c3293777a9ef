"""Checks made before a charge, on plans alone."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from dpproxy.errors import Refusal
from dpproxy.limits.side_threads import SideThreads
from dpproxy.plan.model import Array, Plan
from dpproxy.privacy.loss import ZERO
from dpproxy.session.description import Description
from dpproxy.session.private_statement import SHORT, PrivateStatement, all_formats, check_withheld, inner_text
from dpproxy.sql.statements import split
from dpproxy.table_terms import TableName


@dataclass
class Big:
    withheld: frozenset[TableName]


@pytest.mark.parametrize(
    ("outer", "refused"),
    [
        ("SELECT * FROM unnest($1::text[]) AS m(big) JOIN big ON true", True),
        ('SELECT * FROM "public"."big" AS b', True),
        ("SELECT * FROM Big", True),
        ("SELECT big FROM unnest($1::text[]) AS big(x)", False),
        ("SELECT * FROM bigger JOIN s.big ON true", False),
        ("SELECT * FROM small", False),
    ],
)
def test_a_withheld_table_is_not_read_after_a_charge(outer: str, refused: bool) -> None:
    plan = Plan((), outer, 0, (), (), ZERO, ())
    dataset = Big(frozenset({TableName("public", "big")}))
    if refused:
        with pytest.raises(Refusal, match="too large"):
            check_withheld(plan, dataset)  # type: ignore[arg-type]
    else:
        check_withheld(plan, dataset)  # type: ignore[arg-type]


def test_positions_are_kept_by_spaces() -> None:
    text = "SELECT 1; /* é */ COPY (SELECT count(*) FROM people) TO STDOUT"
    (_, copied) = split(text, frozenset({"people"}))
    assert inner_text(copied).index("SELECT") == text.index("SELECT count")
    assert inner_text(copied).strip() == "SELECT count(*) FROM people"


def test_formats_of_all_parameters() -> None:
    assert all_formats((), 2, 1) == [0, 0, 0]
    assert all_formats((1,), 2, 1) == [1, 1, 0]
    assert all_formats((1, 0), 2, 2) == [1, 0, 0, 0]
    assert all_formats((1,), 0, 1) == [0]


async def test_long_arrays_are_written_into_a_text_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    (copied,) = split("COPY (SELECT region FROM people) TO STDOUT", frozenset({"people"}))
    plan = Plan((), "", 0, (Array("text", 0, "k0"),), (), ZERO, ())
    private = PrivateStatement(copied, Description((), (), {}), plan, "", "SELECT unnest($1)")
    threads, plain = list[threading.Thread](), PrivateStatement.text
    monkeypatch.setattr(PrivateStatement, "text", lambda *given: (threads.append(threading.current_thread()), plain(*given))[1])
    aside, long = SideThreads(1), b"{" + "é".encode() * SHORT + b"}"
    assert await private.text_aside([b"{a}"], aside) == "COPY (SELECT unnest( E'{a}'::text[])) TO STDOUT"
    assert (await private.text_aside([long], aside)).count(r"\U000000e9") == SHORT
    assert [thread is threading.main_thread() for thread in threads] == [True, False]
