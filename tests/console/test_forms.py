"""Fields become requests, or it is said what is wrong with them."""

from __future__ import annotations

import pytest

from dpproxy.console.pages import joined, parted, request_of
from dpproxy.operations.requests import GrantBudget, OperationError


@pytest.mark.parametrize("names", [("shop", "a/b"), ("%2F", "ä"), ("", "x")])
def test_any_names_go_through_a_field(names: tuple[str, ...]) -> None:
    assert parted(joined(*names), 2) == names
    assert parted("only", 3) == ("only", "", "")


def test_amounts_are_exact() -> None:
    form = {"account": "shop/dataset/shop", "epsilon": "0.1", "delta": "1e-6", "reason": " audit "}
    request, _ = request_of("grant", form, "here")
    assert request == GrantBudget("here", "shop", "dataset", "shop", 100_000, 10**12, "audit")


@pytest.mark.parametrize(
    ("action", "form", "said"),
    [
        ("pause", {"role": "shop/analyst", "reason": " "}, "say the reason"),
        ("pause", {"reason": "x"}, "say the role"),
        ("cancel", {"session": "x"}, "a session has a number"),
        ("cancel", {"session": "9" * 30}, "a session has a number"),
        ("grant", {"account": "a/role/b", "reason": "x"}, "nothing is granted"),
        ("grant", {"account": "a/role/b", "reason": "x", "epsilon": "lots"}, "epsilon is a number"),
        ("grant", {"account": "a/role/b", "reason": "x", "epsilon": "-1"}, "positive"),
        ("grant", {"account": "a/role/b", "reason": "x", "epsilon": "nan"}, "positive"),
        ("grant", {"account": "a/role/b", "reason": "x", "epsilon": "0.0000001"}, "6 digits"),
        ("grant", {"account": "a/role/b", "reason": "x", "delta": "1e30"}, "18 digits"),
    ],
)
def test_what_is_wrong_is_said(action: str, form: dict[str, str], said: str) -> None:
    with pytest.raises(OperationError, match=said):
        request_of(action, form, "here")
