"""The two sides of the privacy boundary as types.

`Exact` is what a backend returned for a measurement: true aggregates. It has no accessor, no repr of its values, no
iteration, no comparison; only `dpproxy.mechanisms` may open it, through `_open` (a test enforces who calls it).
`Released` is what a mechanism made of it: anything may be done with it.
There is no function from `Exact` to a wire message. Keep it so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Never, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Int64 = npt.NDArray[np.int64]


@final
class Exact:
    """This class holds the true results of a measurement's backend queries, one Arrow table a query. Closed on purpose."""

    __slots__ = ("__tables",)

    def __init__(self, tables: tuple[pa.Table, ...]) -> None:
        self.__tables = tables

    def _open(self) -> tuple[pa.Table, ...]:
        """For `dpproxy.mechanisms` alone."""
        return self.__tables

    def __repr__(self) -> str:
        return "<Exact>"

    def __reduce__(self) -> Never:
        raise TypeError("an Exact cannot leave the process")

    def __eq__(self, other: Never) -> Never:  # type: ignore[override]
        raise TypeError("an Exact cannot be compared")

    def __ne__(self, other: Never) -> Never:  # type: ignore[override]
        raise TypeError("an Exact cannot be compared")

    # None rather than a method that raises: to a type checker, too, an Exact is then not iterable and not hashable
    __iter__ = None
    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> Never:
        raise TypeError("an Exact has no truth value")

    def __str__(self) -> Never:
        raise TypeError("an Exact cannot be printed")


@dataclass(frozen=True)
class FoundGroups:
    """Groups that a first round released (`mechanisms.key_rounds`): their keys, and the numbers that the backend gives them."""

    keys: tuple[pa.Array, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True)
class Released:
    """A private answer: one row a group. `keys[i]` and `values[j]` all have `rows` entries.

    `keys` are Arrow arrays in the order of `Measurement.keys`; `values` are int64 on the grid of
    `Measurement.bases`, then of `Measurement.selections`.
    """

    keys: tuple[pa.Array, ...]
    values: tuple[Int64, ...]
    rows: int
