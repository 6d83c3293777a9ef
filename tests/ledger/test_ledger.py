"""What every ledger promises (`dpproxy.ledger.ledger`), on each kind of ledger."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import pytest

from dpproxy.amounts import MICRO
from dpproxy.ledger.entries import Named
from dpproxy.ledger.journal import Journal
from dpproxy.ledger.ledger import (
    BudgetExhausted,
    Charge,
    ChargeRequest,
    ClockDoubtful,
    Grant,
    LedgerCorrupt,
    LedgerError,
    Limits,
    charge,
)
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import ZERO
from dpproxy.records import record
from dpproxy.records.place import SqliteReader
from dpproxy.records.postgres import PostgresLedger
from dpproxy.records.sqlite import SqliteLedger

from .conftest import NOON, MakeRequest

OpenLedger = Callable[..., Journal]

TIGHT = Limits(Limit(3 * MICRO, 0, "month"), Limit(5 * MICRO, 0, "year"), Limit(2 * MICRO, 0, "day"), MICRO)


def test_a_charge_is_what_was_asked(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger, request = open_ledger(), request_of()
    done = charge(ledger, request)
    assert done == Charge(request.id, done.sequence, "shop", "analyst", "ada", request.loss, request.loss, "hash", request.at)


def test_limits_bind_in_turn_and_survive_a_restart(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger = open_ledger()
    assert _refused(ledger, request_of(MICRO + 1, limits=TIGHT)) == ("query", (MICRO, 0))
    for _ in range(2):
        charge(ledger, request_of(limits=TIGHT))
    assert _refused(ledger, request_of(limits=TIGHT)) == ("user", (0, 0))
    ledger.close()
    ledger = open_ledger()
    assert _refused(ledger, request_of(limits=TIGHT)) == ("user", (0, 0))
    charge(ledger, request_of(limits=TIGHT, user="bob"))
    assert _refused(ledger, request_of(limits=TIGHT, user="cyd")) == ("role", (0, 0))
    for user in ("dan", "eve"):
        charge(ledger, request_of(limits=TIGHT, role="other", user=user))
    assert _refused(ledger, request_of(limits=TIGHT, role="third", user="fay")) == ("dataset", None)
    charge(ledger, request_of(limits=TIGHT, role="third", user="fay", dataset="another"))


def _refused(ledger: Journal, request: ChargeRequest) -> tuple[str, tuple[int, int] | None]:
    with pytest.raises(BudgetExhausted) as caught:
        charge(ledger, request)
    return caught.value.which, caught.value.left


def test_delta_is_capped_too(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    """Thousands of thresholded queries of hardly any epsilon: at most six tenths of delta are for thresholds."""
    ledger, limits = open_ledger(), Limits(Limit(10 * MICRO, 400), Limit(10 * MICRO, 10**6))
    for _ in range(24):
        charge(ledger, request_of(1, delta=10, limits=limits))
    with pytest.raises(BudgetExhausted, match="role"):
        charge(ledger, request_of(1, delta=10, limits=limits))


def test_a_reused_release_costs_the_role_alone(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger, limits = open_ledger(), Limits(Limit(2 * MICRO), Limit(MICRO))
    charge(ledger, request_of(limits=limits))
    charge(ledger, request_of(limits=limits, role="second", dataset_loss=ZERO))
    assert ledger.standing("shop", "role", "second", limits.role, NOON).spent_epsilon == MICRO
    assert ledger.standing("shop", "dataset", "shop", limits.dataset, NOON).spent_epsilon == MICRO
    with pytest.raises(BudgetExhausted, match="dataset"):
        charge(ledger, request_of(limits=limits, role="second"))


def test_the_same_id_is_charged_once(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger, request = open_ledger(), request_of()
    first = charge(ledger, request)
    assert charge(ledger, request) == first
    ledger.close()
    ledger = open_ledger()
    assert charge(ledger, request) == first
    assert ledger.standing("shop", "role", "analyst", Limit(10 * MICRO), NOON).charges == 1
    with pytest.raises(LedgerError, match="another statement"):
        charge(ledger, request_of(2, id=request.id))


def test_windows_reopen_forwards_only(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger, limits = open_ledger(), Limits(Limit(MICRO, 0, "month"), Limit(10 * MICRO))
    charge(ledger, request_of(limits=limits))
    with pytest.raises(BudgetExhausted) as caught:
        charge(ledger, request_of(limits=limits))
    assert caught.value.reopens == dt.datetime(2024, 6, 1, tzinfo=dt.UTC)
    june, april = NOON + dt.timedelta(days=20), NOON - dt.timedelta(days=30)
    assert charge(ledger, request_of(limits=limits, at=june)).at == june
    for at in (june, NOON, april):
        with pytest.raises(BudgetExhausted):
            charge(ledger, request_of(limits=limits, at=at))
    ledger.close()
    with pytest.raises(BudgetExhausted):
        charge(open_ledger(), request_of(limits=limits, at=april))


def test_a_jump_forward_needs_a_word(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger = open_ledger(max_jump_days=30)
    charge(ledger, request_of())
    later = NOON + dt.timedelta(days=31)
    assert ledger.lag("shop", NOON) >= 0
    for refused in (lambda: charge(ledger, request_of(at=later)), lambda: ledger.lag("shop", later)):
        with pytest.raises(ClockDoubtful, match="31 days") as doubtful:
            refused()
        assert doubtful.value.refusal().sqlstate == "57P03"
    charge(ledger, request_of(at=NOON + dt.timedelta(days=1)))
    ledger.accept_clock("shop", later, "the office was closed")
    assert charge(ledger, request_of(at=later)).at == later


def test_a_change_of_window_keeps_what_was_spent(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger = open_ledger()
    charge(ledger, request_of(limits=Limits(Limit(MICRO, 0, "day"), Limit(10 * MICRO))))
    monthly = Limits(Limit(MICRO, 0, "month"), Limit(10 * MICRO))
    with pytest.raises(BudgetExhausted, match="role"):
        charge(ledger, request_of(limits=monthly, at=NOON + dt.timedelta(days=1)))


def test_a_grant_adds_to_the_current_window(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger, limits = open_ledger(), Limits(Limit(MICRO, 0, "month"), Limit(10 * MICRO))
    charge(ledger, request_of(limits=limits))
    ledger.grant(Grant("shop", "role", "analyst", 2 * MICRO, 0, "a deadline", NOON))
    ledger.close()
    ledger = open_ledger()
    standing = ledger.standing("shop", "role", "analyst", limits.role, NOON)
    assert (standing.limit_epsilon, standing.left_epsilon) == (3 * MICRO, 2 * MICRO)
    charge(ledger, request_of(2 * MICRO, limits=limits))
    june = NOON + dt.timedelta(days=30)
    assert ledger.standing("shop", "role", "analyst", limits.role, june).left_epsilon == MICRO
    with pytest.raises(LedgerError, match="reason"):
        ledger.grant(Grant("shop", "role", "analyst", 1, 0, " ", NOON))


def test_standing_in_the_window_and_for_life(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger, limit = open_ledger(), Limit(10 * MICRO, 10**12, "month")
    june = NOON + dt.timedelta(days=30)
    for at in (NOON, NOON, june):
        charge(ledger, request_of(at=at, limits=Limits(limit, Limit(100 * MICRO, 10**12)), delta=1000))
    standing = ledger.standing("shop", "role", "analyst", limit, june)
    assert (standing.spent_epsilon, standing.lifetime_epsilon, standing.charges) == (MICRO, 3 * MICRO, 3)
    assert (standing.spent_delta, standing.lifetime_delta) == (1000, 3000)
    assert 10**11 < standing.left_delta < 10**12
    assert standing.resets == dt.datetime(2024, 7, 1, tzinfo=dt.UTC)
    assert ledger.standing("shop", "role", "nobody", limit, june).left_epsilon == limit.epsilon


def test_a_lost_acknowledgement_is_found_by_its_id(
    open_ledger: OpenLedger, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit goes through, then the store reports failure: charged once, and the caller is told so."""
    from dpproxy.ledger.transaction import StoreError

    ledger = open_ledger()
    charge(ledger, request_of())
    commit, failures = ledger._chains._store.commit, iter([True, False])

    def lossy() -> None:
        commit()
        if next(failures, False):
            raise StoreError("the acknowledgement was lost")

    monkeypatch.setattr(ledger._chains._store, "commit", lossy)
    done = [ledger.submit(request_of()) for _ in range(3)]
    assert all(f.result() for f in done)
    assert ledger.standing("shop", "role", "analyst", Limit(10**9), NOON).charges == 4


def test_a_store_that_fails_charges_nobody_and_comes_back(
    open_ledger: OpenLedger, request_of: MakeRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dpproxy.ledger.transaction import StoreError

    ledger = open_ledger()
    charge(ledger, request_of())

    def fails(*_: object) -> None:
        raise StoreError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr(ledger._chains._store, "append", fails)
        with pytest.raises(LedgerError, match="disk full"):
            charge(ledger, request_of())
    charge(ledger, request_of())
    assert ledger.standing("shop", "role", "analyst", Limit(10**9), NOON).charges == 2


def test_a_seal_needs_its_key(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger = open_ledger(key=b"k" * 32)
    charge(ledger, request_of())
    ledger.close()
    with pytest.raises(LedgerError, match="key"):
        charge(open_ledger(), request_of())
    with pytest.raises(LedgerCorrupt, match="seal"):
        charge(open_ledger(key=b"x" * 32), request_of())
    charge(open_ledger(key=b"k" * 32), request_of())


def test_a_windows_first_statement_decides_how_its_delta_is_divided(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    """50 statements of 0.2 by basic composition of 10, 82 when a window begins with one; a restart changes nothing."""
    limit = Limit(10 * MICRO, 10**12, "month")
    limits, large = Limits(limit, Limit(1000 * MICRO, 10**12)), MICRO // 5
    ledger = open_ledger()
    for future in [ledger.submit(request_of(large, limits=limits)) for _ in range(70)]:
        future.result()
    ledger.close()
    ledger = open_ledger()
    verdicts = [ledger.submit(request_of(large, limits=limits)).exception() is None for _ in range(20)]
    assert 78 <= 70 + sum(verdicts) <= 90
    june = NOON + dt.timedelta(days=30)
    charge(ledger, request_of(MICRO // 100, limits=limits, at=june))
    verdicts = [ledger.submit(request_of(large, limits=limits, at=june)).exception() is None for _ in range(90)]
    assert 50 <= sum(verdicts) < 78, "the month began with small ones"


def test_a_verdict_is_of_ones_own_accounts_and_costs_nothing(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    """Asking costs nothing: what is left of the dataset's would tell what others have spent."""
    ledger, limits = open_ledger(), Limits(Limit(2 * MICRO), Limit(MICRO), Limit(MICRO), MICRO)
    charge(ledger, request_of(limits=limits, role="other"))
    asked = request_of(limits=limits, user="bob")
    assert ledger.verdict(asked) is None
    with pytest.raises(BudgetExhausted, match="dataset"):
        charge(ledger, asked)
    verdicts = [ledger.verdict(request_of(2 * MICRO, limits=limits)), ledger.verdict(request_of(limits=limits))]
    assert [v and v.which for v in verdicts] == ["query", "user"], "ada has spent hers in another role"
    assert ledger.standing("shop", "dataset", "shop", limits.dataset, NOON).charges == 1


def test_a_ledger_says_which_it_is(open_ledger: OpenLedger, request_of: MakeRequest) -> None:
    ledger = open_ledger()
    charge(ledger, request_of())
    name = ledger.identity("shop")
    ledger.close()
    assert open_ledger().identity("shop") == name != ""


class TestNamesOfData:
    """Budgets hang on names: a new name over the same data begins with a new budget only by an operator's word."""

    def test_a_renamed_dataset_is_refused(self, open_ledger: OpenLedger, request_of: MakeRequest) -> None:
        ledger = open_ledger()
        assert ledger.name("shop", "data", NOON) == "shop"
        charge(ledger, request_of())
        for again in (ledger, open_ledger() if isinstance(ledger, PostgresLedger) else ledger):
            with pytest.raises(LedgerError, match=r"charged as `shop`.*--as shop"):
                again.name("store", "data", NOON)
            assert again.name("shop", "data", NOON) == "shop"
            assert again.name("clinic", "other data", NOON) == "clinic"

    def test_a_name_has_its_place_in_time(self, tmp_path: Path, request_of: MakeRequest) -> None:
        """By a clock that is behind the record's: entries never go back in time."""
        ledger, before = SqliteLedger(tmp_path / "ledger.sqlite"), NOON - dt.timedelta(days=1)
        charge(ledger, request_of())
        ledger.name("clinic", "other data", before)
        ledger.share("store", "more data", "clinic", before, "renamed")
        ledger.close()
        times = [e.at for _, e in record.show(SqliteReader(tmp_path / "ledger.sqlite")) if isinstance(e, Charge | Named)]
        assert times == [NOON] * 3

    def test_a_name_that_shares_accounts(self, open_ledger: OpenLedger, request_of: MakeRequest) -> None:
        """Also after a restart: what one has spent the other has not."""
        ledger = open_ledger()
        ledger.name("shop", "data", NOON)
        charge(ledger, request_of(4))
        ledger.share("store", "data", "shop", NOON, "renamed")
        for _ in range(2):
            assert ledger.name("store", "data", NOON) == "shop"
            limits = Limits(Limit(10), Limit(10))
            for scope, name in (("role", "analyst"), ("dataset", "store")):
                standing = ledger.standing("store", scope, name, limits.role, NOON)  # type: ignore[arg-type]
                assert (standing.name, standing.spent_epsilon) == (name, 4)
            assert ledger.verdict(request_of(7, dataset="store", limits=limits)) is not None
            with pytest.raises(BudgetExhausted):
                charge(ledger, request_of(7, dataset="store", limits=limits))
            ledger.close()
            ledger = open_ledger()
        ledger.name("store", "data", NOON)
        assert charge(ledger, request_of(6, dataset="store", limits=limits)).dataset == "shop"
        ledger.grant(Grant("store", "dataset", "store", 5, 0, "why", NOON))
        assert ledger.standing("shop", "dataset", "shop", limits.dataset, NOON).limit_epsilon == 15

    def test_accounts_apart_are_an_operators_word(self, open_ledger: OpenLedger, request_of: MakeRequest) -> None:
        ledger = open_ledger()
        ledger.name("shop", "data", NOON)
        charge(ledger, request_of(4))
        ledger.share("store", "data", "store", NOON, "for the auditors")
        assert ledger.name("store", "data", NOON) == "store"
        assert ledger.name("shop", "data", NOON) == "shop"
        assert ledger.standing("store", "role", "analyst", Limit(10), NOON).spent_epsilon == 0
        with pytest.raises(LedgerError, match="`shop`, `store`"):
            ledger.name("third", "data", NOON)

    def test_data_that_moved_stay_with_their_name(self, open_ledger: OpenLedger) -> None:
        ledger = open_ledger()
        ledger.name("shop", "data", NOON)
        assert ledger.name("shop", "moved", NOON) == "shop"
        for data in ("data", "moved"):
            with pytest.raises(LedgerError):
                ledger.name("store", data, NOON)

    def test_a_file_is_known_wherever_it_is(self, open_ledger: OpenLedger) -> None:
        """By another path, under a new name: a hard link, or moved."""
        ledger = open_ledger()
        ledger.name("shop", "a path", NOON, "the file")
        with pytest.raises(LedgerError, match=r"charged as `shop`.*--as shop"):
            ledger.name("store", "another path", NOON, "the file")
        assert ledger.name("shop", "another path", NOON, "the file") == "shop"
        assert ledger.name("clinic", "its path", NOON, "its file") == "clinic"
        with pytest.raises(LedgerError, match="charged as `shop`"):
            ledger.name("clinic", "its path", NOON, "the file")  # a link that takes its place later
        assert ledger.name("shop", "a path", NOON, "loaded anew") == "shop"
        with pytest.raises(LedgerError, match="charged as `shop`"):
            ledger.name("store", "another path", NOON, "loaded anew")

    def test_what_an_operator_said_of_a_file_holds_of_what_is_loaded_later(self, open_ledger: OpenLedger) -> None:
        ledger = open_ledger()
        ledger.name("shop", "a path", NOON, "the file")
        ledger.share("store", "another path", "store", NOON, "apart", "the file")
        assert ledger.name("store", "another path", NOON, "the file") == "store"
        assert ledger.name("shop", "a path", NOON, "loaded anew") == "shop"
        assert ledger.name("store", "another path", NOON, "loaded anew") == "store"
        with pytest.raises(LedgerError):
            ledger.name("third", "a third path", NOON, "loaded anew")
