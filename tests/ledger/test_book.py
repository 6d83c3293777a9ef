"""The fold of a record's entries, against sums by hand; and entries that cannot follow."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpproxy.amounts import MICRO
from dpproxy.budget_windows import Window
from dpproxy.ledger.book import TOLERANCE, Book
from dpproxy.ledger.entries import Checkpoint, ClockWord, ClockWrong, Entry, Exhausted, Opened
from dpproxy.ledger.ledger import BudgetExhausted, Charge, ClockDoubtful, Grant, LedgerCorrupt, Limits
from dpproxy.privacy.accountant import Limit
from dpproxy.privacy.loss import Loss
from tests.ledger.conftest import NOON, WIDE, make_request

YEARS = dt.timedelta(days=10_000)
charges = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 9), st.integers(0, 9)), max_size=15)


def book_of(*entries: Entry) -> Book:
    book = Book(YEARS)
    for number, entry in enumerate((Opened("ledger"), *entries), 1):
        book.apply(number, entry)
    return book


def charge(role: str = "a", epsilon: int = MICRO, dataset_epsilon: int = 0, at: dt.datetime = NOON) -> Charge:
    return Charge("id", 2, "shop", role, role, Loss(epsilon), Loss(dataset_epsilon), "hash", at)


@given(charges)
@settings(max_examples=50, deadline=None)
def test_accounts_are_sums(given_charges: list[tuple[str, int, int]]) -> None:
    book = book_of(*(charge(role, epsilon, whole) for role, epsilon, whole in given_charges))
    wide = Limit(10**9)
    for role in "abc":
        standing = book.standing(("shop", "role", role), wide, NOON)
        own = [epsilon for name, epsilon, _ in given_charges if name == role]
        assert (standing.lifetime_epsilon, standing.charges) == (sum(own), len(own))
        assert standing.left_epsilon == 10**9 - sum(own)
    whole = book.standing(("shop", "dataset", "shop"), wide, NOON)
    assert whole.lifetime_epsilon == sum(epsilon for _, _, epsilon in given_charges)


ENTRIES = st.one_of(
    st.tuples(st.just("charge"), st.sampled_from("ab"), st.integers(0, 3), st.integers(0, 3)),
    st.tuples(st.sampled_from(["grant", "exhausted", "back", "word"]), st.sampled_from("ab"), st.just(0), st.just(0)),
)


def entry_of(kind: str, role: str, epsilon: int, dataset_epsilon: int, at: dt.datetime) -> Entry:
    match kind:
        case "charge":
            return charge(role, epsilon, dataset_epsilon, at)
        case "grant":
            return Grant("shop", "role", role, 5, 7, "why", at)
        case "exhausted":
            return Exhausted(at, "lost")
        case "back":
            return ClockWrong(at - dt.timedelta(days=3), "wrong")
        case _:
            return ClockWord(at, "right")


@given(st.lists(st.tuples(ENTRIES, st.sampled_from([0, 0, 0, 1, 30 * 3600])), max_size=25), st.integers(1, 25))
@settings(max_examples=300, deadline=None)
def test_many_at_once_are_one_by_one(found: list[tuple[tuple[str, str, int, int], int]], several: int) -> None:
    """Whatever comes between charges, on whichever days, free ones too, and however many are taken up at once."""
    at, entries = NOON, list[Entry]()
    for entry, seconds in found:
        at += dt.timedelta(seconds=seconds)
        entries.append(entry_of(*entry, at))
        at = entries[-1].at if isinstance(entries[-1], ClockWrong) else at
    book, again = book_of(*entries), book_of()
    numbered = list(enumerate(entries, 2))
    for place in range(0, len(numbered), several):
        again.apply_all(numbered[place : place + several])
    assert again.checkpoint() == book.checkpoint()
    assert (again.sequence, again.clock) == (book.sequence, book.clock)


def test_a_limit_is_reached_and_not_passed() -> None:
    limits = Limits(Limit(3 * MICRO), Limit(10 * MICRO))
    book = book_of(charge(epsilon=2 * MICRO))
    request = make_request(MICRO, role="a", user="a", limits=limits)
    assert book.decide(request).sequence == 3
    with pytest.raises(BudgetExhausted) as caught:
        book.decide(make_request(MICRO + 1, role="a", user="a", limits=limits))
    assert (caught.value.which, caught.value.left) == ("role", (MICRO, 0))


def test_no_statement_costs_more_than_one_may() -> None:
    limits = replace(WIDE, per_query_epsilon=2 * MICRO)
    assert book_of().decide(make_request(2 * MICRO, limits=limits)).loss == Loss(2 * MICRO)
    with pytest.raises(BudgetExhausted) as caught:
        book_of().decide(make_request(2 * MICRO + 1, limits=limits))
    assert (caught.value.which, caught.value.left) == ("query", (2 * MICRO, 0))


@pytest.mark.parametrize("scope", ["role", "user", "dataset"])
def test_whoever_has_a_limit_is_charged_and_held_to_it(scope: str) -> None:
    """One of the three has a limit; others of its name's kind spend beside it."""
    limits = replace(WIDE, **{scope: Limit(3 * MICRO)})
    mine = {"role": "a", "user": "u", "dataset": "shop"}
    others = {"role": "b", "user": "v", "dataset": "other"}
    spent = replace(charge(epsilon=2 * MICRO, dataset_epsilon=2 * MICRO), user="u")
    book = book_of(spent)
    name = mine[scope]
    assert book.standing(("shop", scope, name), Limit(3 * MICRO), NOON).left_epsilon == MICRO
    assert book.decide(make_request(MICRO, limits=limits, **mine)).sequence == 3
    with pytest.raises(BudgetExhausted) as caught:
        book.decide(make_request(MICRO + 1, limits=limits, **mine))
    assert caught.value.which == scope
    assert book.decide(make_request(MICRO + 1, limits=limits, **{**mine, scope: others[scope]})).sequence == 3


@pytest.mark.parametrize(
    ("window", "within", "after"),
    [
        ("day", dt.timedelta(hours=11), dt.timedelta(hours=12)),
        ("month", dt.timedelta(days=16), dt.timedelta(days=17)),
        ("never", dt.timedelta(days=4000), None),
    ],
)
def test_a_limit_begins_anew_with_its_own_window(window: Window, within: dt.timedelta, after: dt.timedelta | None) -> None:
    """Spent at noon of the fifteenth of May."""
    limit = Limit(3 * MICRO, window=window)
    book = book_of(charge(epsilon=2 * MICRO))
    assert book.standing(("shop", "role", "a"), limit, NOON + within).left_epsilon == MICRO
    if after is not None:
        assert book.standing(("shop", "role", "a"), limit, NOON + after).left_epsilon == 3 * MICRO


def test_a_clock_that_runs_ahead_of_a_steady_one_is_doubted() -> None:
    """A steady clock decides, however far a clock may leap without one, on a copy as well; once it is behind, it says nothing."""
    book = book_of(charge())
    book.steady = NOON + dt.timedelta(minutes=5)
    for same in (book, book.copy()):
        assert same.now(book.steady + TOLERANCE) == book.steady + TOLERANCE
        with pytest.raises(ClockDoubtful, match="ran ahead by 1:01:00"):
            same.decide(make_request(at=book.steady + TOLERANCE + dt.timedelta(minutes=1)))
    book.steady = NOON - dt.timedelta(minutes=5)
    assert book.now(NOON + dt.timedelta(days=9000)) == NOON + dt.timedelta(days=9000)
    book.steady = None
    with pytest.raises(ClockDoubtful, match="days after the ledger's last entry"):
        book.now(NOON + YEARS + dt.timedelta(days=1))


def test_a_grant_widens_one_window() -> None:
    book = book_of(charge(epsilon=3 * MICRO), Grant("shop", "role", "a", MICRO, 0, "why", NOON))
    assert book.standing(("shop", "role", "a"), Limit(3 * MICRO), NOON).left_epsilon == MICRO
    assert book.standing(("shop", "role", "b"), Limit(3 * MICRO), NOON).left_epsilon == 3 * MICRO


def test_what_may_be_lost_counts_as_everything() -> None:
    book = book_of(charge(), Exhausted(NOON, "lost"))
    assert book.standing(("shop", "role", "a"), Limit(50 * MICRO), NOON).left_epsilon == 0
    assert book.standing(("shop", "role", "new"), Limit(50 * MICRO), NOON).left_epsilon == 0


def test_a_copy_goes_its_own_way() -> None:
    book = book_of(charge())
    other = book.copy()
    other.apply(3, charge())
    wide = Limit(10**9)
    assert [b.standing(("shop", "role", "a"), wide, NOON).charges for b in (book, other)] == [1, 2]


def test_a_checkpoint_begins_an_equal_book() -> None:
    book, again = book_of(charge(), charge("b")), Book(YEARS)
    again.restore(book.sequence, book.checkpoint())
    assert again.checkpoint() == book.checkpoint()
    with pytest.raises(LedgerCorrupt, match="checkpoint"):
        again.restore(3, charge())


@pytest.mark.parametrize(
    ("sequence", "entry"),
    [
        (4, charge()),
        (2, charge()),
        (3, Opened("again")),
        (3, charge(at=NOON - dt.timedelta(microseconds=1))),
        (3, ClockWord(NOON - dt.timedelta(days=1), "")),
        (3, Checkpoint({"accounts": []})),
    ],
)
def test_entries_that_cannot_follow(sequence: int, entry: Entry) -> None:
    with pytest.raises(LedgerCorrupt):
        book_of(charge()).apply(sequence, entry)
    with pytest.raises(LedgerCorrupt):
        book_of().apply_all([(2, charge()), (sequence, entry)])


def test_the_first_entry_opens() -> None:
    with pytest.raises(LedgerCorrupt, match="sequence"):
        Book(YEARS).apply(1, replace(charge(), sequence=1))
