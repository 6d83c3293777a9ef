"""What is written is read back as it was, by our reader."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from dpproxy.authoring.yaml_text import scalar, written_name
from dpproxy.policy import names, scalars
from dpproxy.policy.tree import Mapping, Scalar, Sequence, parse
from dpproxy.table_terms import TableName

TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), max_size=20)


def back(text: str) -> Scalar:
    tree = parse(f"v: [{text}]\n", "p")
    assert isinstance(tree, Mapping)
    items = tree.entries["v"]
    assert isinstance(items, Sequence)
    (item,) = items.items
    assert isinstance(item, Scalar)
    return item


@given(
    TEXTS
    | st.sampled_from(
        ["yes", "null", "1", "1.5", "2024-01-01", "~", "a: b", "# x", "<=50K", "- a", "true", "", "{", "O'Neil", '"']
    )
)
def test_texts(text: str) -> None:
    item = back(scalar(text))
    assert item.text == text
    assert scalars.value(item) == text


def test_others() -> None:
    assert [scalars.value(back(scalar(v))) for v in (True, -3, Decimal("0.50"))] == [True, -3, Decimal("0.50")]


@given(
    st.sampled_from(["public", "cdm", "Sales"]),
    st.sampled_from(["orders", "FCC 2018 Survey", "Orders", "a.b", 'q"q', "x$1", "user", "no"]),
)
def test_names(schema: str, name: str) -> None:
    table = TableName(schema, name)
    tree = parse(f"{written_name(table)}: x\n", "p")
    assert isinstance(tree, Mapping)
    assert names.table(next(iter(tree.entries))) == table
    assert names.table_column(f"{written_name(table, bare=True)}.id") == (table, "id")
