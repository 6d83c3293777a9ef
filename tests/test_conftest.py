"""What every run of the tests does: the longest files begin, and a failure that pytest cannot show is shown all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture
def conftest(request: pytest.FixtureRequest) -> Any:
    return request.config.pluginmanager.get_plugin(str(HERE / "conftest.py"))


def test_the_longest_files_are_there(conftest: Any) -> None:
    assert [name for name in conftest.LONGEST if not (HERE / name).is_file()] == []


def test_they_begin(conftest: Any, request: pytest.FixtureRequest) -> None:
    class Item:
        def __init__(self, name: str) -> None:
            self.path = HERE / name

    items = [Item("wire/test_framing.py"), Item(conftest.LONGEST[1]), Item("sql/test_trees.py"), Item(conftest.LONGEST[0])]
    conftest.pytest_collection_modifyitems(items)
    first, second = conftest.LONGEST[:2]
    assert [i.path for i in items] == [HERE / n for n in (first, second, "wire/test_framing.py", "sql/test_trees.py")]


def test_a_failure_that_cannot_be_shown_ends_no_run(conftest: Any, request: pytest.FixtureRequest) -> None:
    def fails() -> None:
        raise ValueError("what went wrong")

    call = pytest.CallInfo.from_call(fails, "call")
    hook = conftest.pytest_runtest_makereport(request.node, call)
    next(hook)
    with pytest.raises(StopIteration) as done:
        hook.throw(SystemError("AST constructor recursion depth mismatch (before=147, after=161)"))
    report = done.value.value
    assert report.failed
    assert "what went wrong" in str(report.longrepr)
    assert request.config.option.tbstyle != "native"
