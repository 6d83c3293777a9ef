"""For which constants an operation is total: the last that is, and the first that is not."""

from __future__ import annotations

import pytest

from dpproxy.kernel import constants
from dpproxy.kernel.allowed import CONSTANT

TOTAL: dict[str, tuple[tuple[str, ...], ...]] = {
    "round": (("15",), ("-15",)), "trunc": (("0",),), "repeat": (("0",), ("1000",)), "bitright": (("15",),), "nth_value": (("1",),),
    "lpad": (("1000", " "),), "rpad": (("0", "x"),), "trunc_time": (("decade",),), "from_utc": (("Europe/Paris",),), "to_utc": (("UTC",),),
    "regex": (("^a{99}(b|c)*$",),), "iregex": ((r"\d\.",),), "regexp_count": (("a",),), "regexp_extract": (("(a)", "1", "i"),),
    "regexp_replace": (("(a)", r"\1b", "gi"),), "bucket_float": (("-1.5", "1e300", "10000"),), "bucket_numeric": (("0", "1", "1"),),
    "date_bin": (("0 0 1", "2000-01-01"), ("0 366 0", "9999-12-31")), "interval_times": (("12 0 0", "4000"), ("0 0 0", "1")),
    "interval_parts": (("1", "0", "1460000"),), "like": (("!",), ("",)), "ilike": ((),), "strftime": (("%Y",),), "translate": (("", "x"),),
}  # fmt: skip
NOT_TOTAL: dict[str, tuple[tuple[str, ...], ...]] = {
    "round": (("16",), ("x",)), "trunc": (("-16",),), "repeat": (("-1",), ("1001",)), "bitright": (("16",), ("-1",)),
    "nth_value": (("0",),), "lpad": (("1001", " "), ("3", "")), "rpad": (("-1", "x"),), "trunc_time": (("century",), ("",)),
    "from_utc": (("Nowhere/City",), ("../etc",)), "to_utc": (("",),),
    "regex": (("(?=a)",), (r"(a)\1",), ("a{1000}",), ("(",), ("a" * 501,)), "iregex": ((r"\y",),), "regexp_count": (("[",),),
    "regexp_extract": (("a", "1", ""), ("(", "0", ""), ("a", "0", "g")), "regexp_replace": (("a", r"\1", ""), ("a", "\\", ""), ("a", "", "x")),
    "bucket_float": (("1", "1", "3"), ("2", "1", "3"), ("0", "1", "0"), ("0", "1e301", "3")), "bucket_numeric": (("0", "1", "10001"),),
    "date_bin": (("1 0 0", "2000-01-01"), ("0 0 0", "2000-01-01"), ("0 -1 0", "2000-01-01"), ("0 4000000 0", "2000-01-01"), ("0 1 0", "infinity")),
    "interval_times": (("12 0 0", "4100"), ("0 0 1", "-1"), ("0 0 0", "2147483648")), "interval_parts": (("1", "0", "1600000"), ("86400000000", "0", "0")),
    "like": (("ab",),), "strftime": (("",),),
}  # fmt: skip


@pytest.mark.parametrize("op", TOTAL)
def test_constants_for_which_an_operation_is_total(op: str) -> None:
    assert [texts for texts in TOTAL[op] if texts and not constants.total(op, texts)] == []


@pytest.mark.parametrize("op", NOT_TOTAL)
def test_constants_for_which_it_is_not(op: str) -> None:
    assert [texts for texts in NOT_TOTAL[op] if constants.total(op, texts)] == []


def test_every_operation_with_constants_is_tried() -> None:
    assert CONSTANT.keys() - {"concat_ws"} == TOTAL.keys()


@pytest.mark.parametrize(
    ("type_", "text", "is_one"),
    [
        ("int2", "32767", True), ("int2", "32768", False), ("int4", "-2147483648", True), ("int4", "2147483648", False),
        ("int8", "9223372036854775807", True), ("int8", "9223372036854775808", False), ("int8", "9" * 4000, False),
        ("int4", "1.0", False), ("int4", "", False), ("numeric", "-.5e-10", True), ("numeric", "1" * 400, True), ("float8", "1e400", True),
        ("float8", "abc", False), ("numeric", "1e", False), ("numeric", "--1", False),
    ],
)  # fmt: skip
def test_numbers(type_: str, text: str, is_one: bool) -> None:
    assert constants.number(type_, text) is is_one
