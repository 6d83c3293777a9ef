"""Processes and their pipes fit each other: what one wants of the other is there. That they work is tested in `test_processes.py`."""

from __future__ import annotations

import inspect

import pytest

from dpproxy.serve.member_process import Post
from dpproxy.serve.neighbours import Member, Neighbours
from dpproxy.serve.proxy import Running


def wanted(protocol: type) -> list[str]:
    return [name for name, part in vars(protocol).items() if not name.startswith("_") and inspect.isfunction(part)]


@pytest.mark.parametrize(("protocol", "made"), [(Member, Running), (Neighbours, Post)])
def test_what_is_wanted_is_there(protocol: type, made: type) -> None:
    assert len(wanted(protocol)) >= 5
    for name in wanted(protocol):
        here, there = (inspect.signature(getattr(one, name)).parameters for one in (protocol, made))
        assert list(here) == list(there), name
