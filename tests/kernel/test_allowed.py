"""The kernel's list of operations is written by hand, and says what the planner's catalogue says: neither more nor less."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from dpproxy.kernel import allowed
from dpproxy.kernel.kinds import kind
from dpproxy.plan.operations import operation
from dpproxy.plan.operations.catalogue import CATALOGUE
from dpproxy.plan.operations.operation import KINDS, Nulls, Refused

FEW, MANY = "inftbdpcvu", "inftpv"
"""Kinds of up to three operands, and of four."""


def signatures() -> Iterator[str]:
    for size in range(5):
        for operands in itertools.product(FEW if size < 4 else MANY, repeat=size):
            yield from (f"{''.join(operands)}>{result}" for result in f"{FEW}r")


SIGNATURES = tuple(signatures())


def taken(pattern: re.Pattern[str]) -> set[str]:
    return set(filter(pattern.fullmatch, SIGNATURES))


def test_the_kernel_and_the_catalogue_know_the_same_operations() -> None:
    added = "a new operation is added to kernel.allowed by hand, once it is total"
    assert CATALOGUE.keys() == allowed.OPERATIONS.keys(), added


@pytest.mark.parametrize("name", CATALOGUE)
def test_both_take_operands_of_the_same_kinds(name: str) -> None:
    found = taken(re.compile(f"(?:{CATALOGUE[name].takes})"))
    assert found == taken(allowed.OPERATIONS[name])
    assert found, "no operation takes nothing"


def test_a_signature_that_one_lacks_is_found() -> None:
    assert taken(re.compile("t>t|tt>t")) - taken(re.compile("t>t")) == {"tt>t"}


def test_both_know_the_same_kinds() -> None:
    assert {type_: kind(type_) for type_ in KINDS} == KINDS
    assert operation.kind("json") == kind("json") == "x"


def test_both_say_what_is_never_null() -> None:
    never = {row.name for row in CATALOGUE.values() if row.nulls is Nulls.NEVER}
    assert never - {"row"} == allowed.OF_NULL


def test_duckdb_and_postgres_spell_every_operation() -> None:
    spelled = {
        name for name, row in CATALOGUE.items() if not isinstance(row.duckdb, Refused) and not isinstance(row.postgres, Refused)
    }
    assert spelled == allowed.OPERATIONS.keys()


def test_lists_are_apart() -> None:
    assert allowed.WINDOWS.keys() > allowed.BY_PLACE
    assert allowed.OPERATIONS.keys() > allowed.OF_NULL
    assert allowed.CONSTANT.keys() < allowed.OPERATIONS.keys() | allowed.WINDOWS.keys()
    assert not allowed.OPERATIONS.keys() & (allowed.WINDOWS.keys() | allowed.AGGREGATES.keys())
