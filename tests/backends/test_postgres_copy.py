"""COPY's CSV as Arrow: NULL is no text, every text is itself, and equal numbers get equal texts."""

from __future__ import annotations

import csv
import io

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpproxy.backends.postgres_snapshot import NULL, read_csv, told_equal


def test_types_and_nulls() -> None:
    table = read_csv(b'1,t,x\n\\N,f,\\N\n-9223372036854775808,\\N,"\\N"\n', [("n", "int8"), ("b", "bool"), ("t", "text")])
    assert table.to_pydict() == {
        "n": [1, None, -(2**63)], "b": [True, False, None], "t": ["x", None, NULL],
    }  # fmt: skip
    assert [field.type for field in table.schema] == [pa.int64(), pa.bool_(), pa.string()]


def test_no_rows_have_columns_all_the_same() -> None:
    table = read_csv(b"", [("n", "int4"), ("t", "date")])
    assert (table.num_rows, table.schema.names, table.schema.types) == (0, ["n", "t"], [pa.int64(), pa.string()])


def test_names_need_not_be_distinct() -> None:
    table = read_csv(b"1,2\n", [("n", "int4"), ("n", "int4")])
    assert [column.to_pylist() for column in table.columns] == [[1], [2]]


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")), min_size=1))
def test_every_text_is_itself(texts: list[str | None]) -> None:
    """As PostgreSQL writes it: quoted where it must be, and where it is what stands for NULL."""
    written = io.StringIO()
    for text in texts:
        if text is None:
            written.write(f"{NULL}\n")
        else:
            quote = csv.QUOTE_ALL if text == NULL or text == "" else csv.QUOTE_MINIMAL
            csv.writer(written, lineterminator="\n", quoting=quote).writerow([text])
    table = read_csv(written.getvalue().encode(), [("t", "text")])
    assert table.column("t").to_pylist() == texts


def test_equal_numbers_are_told_equal() -> None:
    numbers = read_csv(b"1.50,x\n-0,y\n100,z\n1e10,1.50\n2.000,-0\n\\N,\\N\n", [("k0", "numeric"), ("k1", "text")])
    (plain,) = told_equal((numbers,))
    assert plain.column("k0").to_pylist() == ["1.5", "0", "100", "1e10", "2", None]
    assert plain.column("k1").to_pylist() == ["x", "y", "z", "1.50", "-0", None], "texts are as they are"


@pytest.mark.parametrize("broken", [b"1,2\n3\n", b"x\n"])
def test_what_is_no_such_csv_is_an_error(broken: bytes) -> None:
    with pytest.raises(pa.ArrowException):
        read_csv(broken, [("n", "int4"), ("m", "int4")][: broken.count(b",") + 1])
