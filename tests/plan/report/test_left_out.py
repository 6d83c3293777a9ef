"""What is said of rows that an answer does not count."""

from __future__ import annotations

from dpproxy.plan.model import LeftOut
from dpproxy.plan.report.left_out import left_out_told, rows_text


def test_words() -> None:
    assert rows_text(LeftOut("day", True)) == "rows whose day is NULL (`nulls`)"
    assert rows_text(LeftOut("day", True, "range")) == "rows whose day is NULL (`nulls`) or outside its declared `range`"
    assert rows_text(LeftOut("kind", False, "values")) == "rows whose kind is not one of its declared values (`values`)"


def test_a_notice_names_both_kinds_of_rows() -> None:
    assert left_out_told((), ()) == ""
    assert left_out_told([LeftOut("day", True)], ["rows of flights whose tailnum is NULL (they belong to no plane)"]) == (
        "not counted, if there are any: rows whose day is NULL (`nulls`), "
        "rows of flights whose tailnum is NULL (they belong to no plane)"
    )
