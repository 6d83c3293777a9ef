"""Released arrays as items of FROM: `unnest($n::t[], ...) AS m(...)`, one for each measurement, or several made one.

Knows: names and types of released columns. Must not know: what they mean.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.sql.dialect import to_sql
from dpproxy.sql.skeleton import parse_expression
from dpproxy.sql.types import wire_type

Branch = tuple[exp.Expr, tuple[int, ...], bool, list[str]]


def sets_source(alias: str, branches: list[Branch], keys: list[str], values: list[str], ctes: str = "") -> exp.Expr:
    """Return the grouping sets as one source: `(SELECT k0, NULL AS k1, b0, 2 AS g FROM <set> UNION ALL ...) AS alias`.

    A branch is (its source, the keys of its set, whether the source is the finest set and must be added up, more items).
    `ctes`: a WITH clause that sources refer to, whose values are whole but not of type int8.
    `g` has bit i set where key i is left out.
    """
    texts = []
    for source, members, summed, more in branches:
        missing = sum(1 << i for i in range(len(keys)) if i not in members)
        items = [f"k{i}" if i in members else f"CAST(NULL AS {keys[i]}) AS k{i}" for i in range(len(keys))]
        items += [f"CAST({_added(v)} AS int8) AS {v}" if summed else v for v in values]
        if ctes:
            items = [f"CAST({item} AS int8) AS {item}" if item in values else item for item in items]
        text = f"SELECT {', '.join([*items, *more, f'{missing} AS g'])} FROM {to_sql(source)}"
        if summed and members:
            text += f" GROUP BY {', '.join(f'k{i}' for i in members)}"
        texts.append(text)
    return _from_item(f"({ctes}{' UNION ALL '.join(texts)}) AS {alias}")


def _added(value: str) -> str:
    """A released value of a group of groups: of last steps the greatest; what later ones hold may be without a bound in each."""
    if value[0] == "t":
        return f"COALESCE(MAX({value}), 0)"
    return f"LEAST(COALESCE(SUM({value}), 0), {2**60})" if value[0] == "x" else f"COALESCE(SUM({value}), 0)"


def with_columns(source: exp.Expr, alias: str, more: list[str]) -> exp.Expr:
    """Return a source of that alias with further columns, the same in all rows."""
    return _from_item(f"(SELECT *, {', '.join(more)} FROM {to_sql(source)}) AS {alias}")


def filtered_source(source: exp.Expr, tests: list[str]) -> exp.Expr:
    """Return the rows of a source that pass all tests."""
    return _from_item(f"(SELECT * FROM {to_sql(source)} WHERE {' AND '.join(tests)}) AS f")


def array_source(alias: str, first: int, types: list[tuple[str, str]]) -> exp.Expr:
    """Write `unnest($n::t[], ...) AS alias(names)`; `types` are (column name, element type), parameters from `first` on."""
    arrays = ", ".join(f"${first + i}::{wire_type(t)}[]" for i, (_, t) in enumerate(types))
    names = ", ".join(name for name, _ in types)
    return _from_item(f"unnest({arrays}) AS {alias}({names})")


def _from_item(text: str) -> exp.Expr:
    found = parse_expression(f"SELECT 1 FROM {text}").args["from_"].this
    assert isinstance(found, exp.Expr)
    return found


def session_local(name: str, type_: str) -> str:
    """Return a key as it travels: instants do as the session's local timestamps."""
    return f"({name})::timestamp" if type_ == "timestamptz" else name
