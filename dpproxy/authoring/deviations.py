"""How far answers are off: rows of one answer beside rows of another, cell by cell, relative to what they should be.

Knows: rows of Python values. Must not know: where they come from. Rows belong together that have the same texts, dates and truth
values, in their order; columns of numbers that never differ are keys, and do not count.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

Rows = Sequence[Sequence[Any]]


def deviation(found: Rows, true: Rows, others: Sequence[Rows] = ()) -> float | None:
    """Return the median over cells of |found - true| / |true|, a missing row being off by all of it; None where nothing can be
    compared. `others`: further answers, which say which columns are keys."""
    keyed, width = _keyed(true), len(true[0]) if true else 0
    answers = [_keyed(rows) for rows in (found, *others)]
    counted = [c for c in range(width) if any(_differs(keyed, answer, c) for answer in answers)]
    errors = []
    for key, row in keyed.items():
        other = answers[0].get(key)
        errors += [_off(other[c] if other is not None else 0, row[c]) for c in counted if _number(row[c]) not in (None, 0.0)]
    return statistics.median(errors) if errors else (0.0 if keyed else None)


def missing(found: Rows, true: Rows) -> int:
    """Return how many rows of the true answer are not in the other."""
    there = _keyed(found)
    return sum(key not in there for key in _keyed(true))


def _keyed(rows: Rows) -> dict[tuple[Any, ...], Sequence[Any]]:
    seen: Counter[tuple[Any, ...]] = Counter()
    keyed = {}
    for row in rows:
        key = tuple("" if _number(v) is not None else v for v in row)
        seen[key] += 1
        keyed[(*key, seen[key])] = row
    return keyed


def _differs(true: dict[tuple[Any, ...], Sequence[Any]], other: dict[tuple[Any, ...], Sequence[Any]], column: int) -> bool:
    return any(_number(row[column]) != _number(other[key][column]) for key, row in true.items() if key in other)


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return float(value) if math.isfinite(value) else None


def _off(found: Any, true: Any) -> float:
    number, right = _number(found) or 0.0, _number(true)
    assert right
    return abs(number - right) / abs(right)
