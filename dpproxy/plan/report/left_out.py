"""What is said of rows that an answer does not count: those in no declared group, and those that belong to no unit.

Knows: what a plan says of these. Must not know: data; whether there are such rows is not told to analysts, in whose notice
these words are, but to the policy's author (`dpproxy policy check`).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpproxy.plan.model import LeftOut

_OTHERS = {"values": "not one of its declared values (`values`)", "range": "outside its declared `range`", "": ""}


def rows_text(out: LeftOut) -> str:
    """Say which rows of a column are meant, and the setting of the policy that decides it."""
    reasons = ["NULL (`nulls`)"] if out.nulls else []
    reasons += [_OTHERS[out.others]] if out.others else []
    return f"rows whose {out.column} is {' or '.join(reasons)}"


def left_out_told(out: Sequence[LeftOut], unitless: Sequence[str]) -> str:
    """Say in a notice what is not counted; empty where everything is."""
    said = [*map(rows_text, out), *unitless]
    return f"not counted, if there are any: {', '.join(said)}" if said else ""
