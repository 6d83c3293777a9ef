"""The two protocols of binding and those that keep them: every member is there, with the same parameters."""

from __future__ import annotations

import inspect

import pytest

from dpproxy.plan.bind.protocols import Measurer, Queries
from dpproxy.plan.bind.queries import QueryBinder
from dpproxy.plan.outer.staging import StatementMeasurer


@pytest.mark.parametrize(("protocol", "kept_by"), [(Queries, QueryBinder), (Measurer, StatementMeasurer)])
def test_every_member_is_there(protocol: type, kept_by: type) -> None:
    methods = {name: f for name, f in vars(protocol).items() if inspect.isfunction(f) and not name.startswith("_")}
    assert len(methods) > 4
    for name, asked in methods.items():
        given = inspect.signature(getattr(kept_by, name)).parameters
        assert [(p.name, p.kind, p.default) for p in inspect.signature(asked).parameters.values()] == [
            (p.name, p.kind, p.default) for p in given.values()
        ], name
    written = inspect.getsource(kept_by) + "".join(
        inspect.getsource(base) for base in kept_by.__mro__[1:-1] if base.__module__.startswith("dpproxy")
    )
    for attribute in protocol.__annotations__:
        assert f"{attribute}:" in written or f"self.{attribute} =" in written or f"self.{attribute}," in written, attribute


def test_each_method_says_what_it_is_for() -> None:
    for protocol in (Queries, Measurer):
        assert all(f.__doc__ for name, f in vars(protocol).items() if inspect.isfunction(f) and not name.startswith("_"))
