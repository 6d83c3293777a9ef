"""A status is a value that goes through JSON and comes back the same."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from dpproxy.operations.status import Check, rebuilt
from tests.worlds.told_status import STATUS


def test_there_and_back() -> None:
    assert rebuilt(json.loads(json.dumps(asdict(STATUS)))) == STATUS
    with pytest.raises(ValueError, match="validation error"):
        rebuilt({"process": 1})


def test_ready_is_who_can_answer() -> None:
    assert STATUS.ready
    assert not replace(STATUS, stopping=True).ready
    assert not replace(STATUS, checks=(*STATUS.checks, Check("ledger", "shop", False, 5.0))).ready
