"""However questions come, no more are answered than are paid for; a ledger that charges late, or once, is found out."""

from __future__ import annotations

from dpproxy.audit.attacks import PAID_FOR, TRIED, accounting
from dpproxy.audit.bench import AuditBench, Statement, Subject
from dpproxy.audit.planted import COUNT, ChargesLate, ChargesOnce
from dpproxy.audit.self_test import ROLE

ASKED = Statement(ROLE, COUNT)


def test_the_ledger_as_it_is(small: AuditBench) -> None:
    found = accounting(small, ASKED, Subject().ledger)
    assert (found.in_turn, found.at_once) == (PAID_FOR, PAID_FOR)
    assert not found.overspent


def test_ledgers_that_give_something_away(small: AuditBench) -> None:
    late, once = accounting(small, ASKED, ChargesLate), accounting(small, ASKED, ChargesOnce)
    assert late.at_once > PAID_FOR
    assert late.overspent
    assert once.in_turn == TRIED
    assert once.overspent
