"""A value of a hole is spelled once for its type, and stands in names as something short."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass

import pytest

from dpproxy.engines import literal
from dpproxy.errors import Refusal
from dpproxy.limits.side_threads import SideThreads
from dpproxy.reuse.matching import LONG, SpelledValues, check_size, holes
from dpproxy.sql.template import Param, Template

ARRAY = "{" + ",".join(map(str, range(LONG))) + "}"


class Spelling:
    """Spells as the planner does, and counts where and how often."""

    def __init__(self) -> None:
        self.here, self.beside = 0, 0

    def __call__(self, dialect: str, type_: str, text: str | None) -> str:
        if threading.current_thread() is threading.main_thread():
            self.here += 1
        else:
            self.beside += 1
        return literal("duckdb", type_, text)


@dataclass(frozen=True)
class Names:
    rows: tuple[object, ...]
    mixes: tuple[tuple[object, int], ...]


def test_every_hole_of_a_measurement_is_seen_however_deep_it_is() -> None:
    first, second, third = Param(0, "int8[]"), Param(1, "text"), Param(2, "date")
    names = Names(("SELECT ", first), ((("a", second), 3),))
    assert list(holes((names, [Template("duckdb", (third,))], None, 7))) == [first, second, third]


def test_a_long_value_is_spelled_once_beside_the_loop_whatever_asks_for_it() -> None:
    spelling = Spelling()
    text = ("x IN (", Param(0, "int8[]"), ") AND y = ", Param(1, "int8"))

    async def spelled() -> tuple[str, str, int]:
        values = SpelledValues(spelling, SideThreads(1))
        await values.prepare("duckdb", [text, (text,)], [ARRAY, "7"])
        await values.prepare("duckdb", [text], [ARRAY, "7"])
        assert (spelling.here, spelling.beside) == (0, 1)
        template = Template("duckdb", text)
        names = {template.render([ARRAY, "7"], values.named) for _ in range(20)}
        return template.render([ARRAY, "7"], values), names.pop(), len(names)

    query, name, others = asyncio.run(spelled())
    assert query == f"x IN ({', '.join(map(str, range(LONG)))}) AND y = 7"
    assert (spelling.beside, others) == (1, 0)
    assert spelling.here == 21  # the short value alone
    assert len(name) < 200


def test_names_differ_where_long_values_do() -> None:
    values = SpelledValues(Spelling(), SideThreads(1))
    other = ARRAY.replace(",7,", ",8,")
    assert values.named("duckdb", "int8[]", ARRAY) != values.named("duckdb", "int8[]", other)
    assert values.named("duckdb", "int8[]", ARRAY) == values.named("duckdb", "int8[]", ARRAY.replace(",7,", ", 7,"))
    assert values.key([ARRAY, "7", None])[1:] == ("7", None)
    assert values.key([ARRAY]) != values.key([other])
    assert len(values.key([ARRAY])[0] or "") < 100


def test_a_long_value_that_cannot_be_spelled_says_so_where_it_is_asked_for() -> None:
    async def told() -> None:
        values = SpelledValues(literal, SideThreads(1))
        text = "x" * 20_000
        await values.prepare("duckdb", [(Param(0, "text"),)], [text])
        with pytest.raises(ValueError, match="10,000 characters"):
            values("duckdb", "text", text)

    asyncio.run(told())


def test_parameters_have_so_many_bytes_together_and_no_more() -> None:
    check_size([b"x" * 60, None, "y" * 40], 100)
    with pytest.raises(Refusal, match="more than 100 bytes") as refused:
        check_size([b"x" * 60, None, "y" * 41], 100, ["z"])
    assert "the parameters of this statement have more than 100 bytes" in refused.value.message
    assert refused.value.sqlstate == "54001"


def test_what_the_facade_computed_is_told_from_parameters() -> None:
    check_size(["x" * 60], 100, ["y" * 40, None])
    with pytest.raises(Refusal, match="the values that this statement computes") as refused:
        check_size(["x" * 60], 100, ["y" * 41])
    assert "subqueries" in (refused.value.hint or "")
