"""Generated SQL with holes: each is filled with the value of its number, as a literal of the template's own dialect."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dpproxy.sql.template import Dialect, Param, Template


def shown(dialect: Dialect, type_: str, value: str | None) -> str:
    return f"<{dialect} {type_} {value}>"


@given(
    st.lists(st.text(max_size=5) | st.integers(0, 4), max_size=10),
    st.lists(st.none() | st.text(max_size=3), min_size=5, max_size=5),
)
def test_holes_are_filled_in_place(parts: list[str | int], values: list[str | None]) -> None:
    template = Template("postgres", tuple(p if isinstance(p, str) else Param(p, f"t{p}") for p in parts))
    expected = [p if isinstance(p, str) else f"<postgres t{p} {values[p]}>" for p in parts]
    assert template.render(values, shown) == "".join(expected)


def test_a_value_that_looks_like_sql_is_the_literals_business() -> None:
    template = Template("duckdb", ("a = ", Param(0, "text"), " OR b = ", Param(0, "text")))
    assert template.render(["x' OR 1=1"], lambda d, t, v: repr(v)) == 'a = "x\' OR 1=1" OR b = "x\' OR 1=1"'
