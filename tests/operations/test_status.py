"""A status is a value that goes through JSON and comes back the same."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest

from dpproxy.operations.status import Check, Status, rebuilt
from tests.worlds.told_status import STATUS


def as_json(status: Status = STATUS) -> Any:
    return json.loads(json.dumps(asdict(status)))


def members(value: Any, path: str = "status") -> Iterator[tuple[str, Any, Any]]:
    """Each value inside, with its path, what holds it and its key there."""
    for key, member in value.items() if isinstance(value, dict) else enumerate(value):
        inner = f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]"
        yield inner, value, key
        if isinstance(member, dict | list):
            yield from members(member, inner)


def test_there_and_back() -> None:
    assert rebuilt(as_json()) == STATUS
    assert rebuilt(as_json(replace(STATUS, started=0))) == replace(STATUS, started=0.0)
    assert type(rebuilt(as_json(replace(STATUS, started=0))).started) is float


def test_every_value_is_of_its_type() -> None:
    """Whatever value is of another type, it is named by its path; a boolean is no number, a number no text."""
    for number, (path, _, _) in enumerate(list(members(as_json()))):
        spoilt = as_json()
        _, holder, key = list(members(spoilt))[number]
        holder[key] = not holder[key] if isinstance(holder[key], int) and not isinstance(holder[key], bool) else {"strange": 1}
        with pytest.raises(ValueError, match=f"^{re.escape(path)}(: |[.][a-z_]+: (missing|unknown)$)"):
            rebuilt(spoilt)


def test_every_field_is_there_and_no_other() -> None:
    """Also those that have a default: a process that does not send them is of another version."""
    for number, (path, holder, key) in enumerate(list(members(as_json()))):
        if isinstance(holder, dict):
            lacking, more = as_json(), as_json()
            del list(members(lacking))[number][1][key]
            with pytest.raises(ValueError, match=f"^{re.escape(path)}: missing$"):
                rebuilt(lacking)
            list(members(more))[number][1]["newer"] = 1
            with pytest.raises(ValueError, match=f"^{re.escape(path.removesuffix(key))}newer: unknown$"):
                rebuilt(more)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"started": None}, "status.started: float expected, not NoneType"),
        ({"untold": [["shop", "analyst", "reason", "outcome"]]}, "status.untold[0]: 5 values expected, not 4"),
        ({"lines": "info"}, "status.lines: list expected, not str"),
        ({"counted": []}, "status.counted: fields of Counted expected, not list"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(says)}$"):
        rebuilt(as_json() | change)


def test_ready_is_who_can_answer() -> None:
    assert STATUS.ready
    assert not replace(STATUS, stopping=True).ready
    assert not replace(STATUS, checks=(*STATUS.checks, Check("ledger", "shop", False, 5.0))).ready
