"""The stored forms of reports, and whether a value is one.

Knows: integers, text. Must not know: probabilities, tables, engines. Whoever takes a report from outside asks `Space.holds`
first: a value outside the space is refused there, so that no decoder meets one.

Bit vectors are no good to an engine as lists (a million of them are billions of positions). They travel as text and are stored as
*cells*: how many reports set this bit. `Space.cells` says which cells one report adds to, the last of them the count of reports
by its hash function, which stands behind all bits. Any other report is its own cell: every mechanism can be stored as cells.
"""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass
from math import isfinite
from typing import Final, Literal

Form = Literal["boolean", "integer", "value", "bits", "number"]
"""boolean: yes or no; integer: from 0 to below the space's size; value: one of the candidates as it stands; bits: `J:HEX`, a hash
function's number and the bits set, lowest position in the lowest bit; number: any finite one."""

Report = bool | int | float | str
_BITS: Final = re.compile(r"(0|[1-9][0-9]{0,8}):([0-9a-f]{1,131072})", re.ASCII)


@dataclass(frozen=True)
class Space:
    """The values that a report can have.

    `size` is the number of integers, or of bits over all hash functions; `width` the bits of one vector; `most` the set bits that
    one vector may have: an honest one has more with a chance below 1e-8.
    """

    form: Form
    size: int = 0
    width: int = 0
    most: int = 0

    @property
    def length(self) -> int:
        """How many cells there are: of vectors one for each bit, and one behind them for each hash function."""
        return self.size + (self.size // self.width if self.form == "bits" else 0)

    def holds(self, report: object, values: Container[object] = ()) -> bool:
        """Whether a report lies in the space. `values` are the candidates, which forms other than `value` do not need."""
        match self.form:
            case "boolean":
                return isinstance(report, bool)
            case "integer":
                return isinstance(report, int) and not isinstance(report, bool) and 0 <= report < self.size
            case "value":
                return isinstance(report, str) and report in values
            case "bits":
                return isinstance(report, str) and self._vector(report) is not None
            case "number":
                return isinstance(report, int | float) and not isinstance(report, bool) and isfinite(report)

    def cells(self, report: Report) -> tuple[int, ...]:
        """The cells that one report of the forms `boolean`, `integer` or `bits` adds one to.

        Raises ValueError for a report outside the space, and for forms without cells.
        """
        if self.form in ("boolean", "integer") and self.holds(report):
            return (int(report),)
        vector = self._vector(report) if self.form == "bits" and isinstance(report, str) else None
        if vector is None:
            raise ValueError("a report is outside its space")
        number, bits = vector
        first = number * self.width
        return (*(first + i for i in range(self.width) if bits >> i & 1), self.size + number)

    def text(self, number: int, bits: int) -> str:
        """Write a bit vector as it travels."""
        return f"{number}:{bits:x}"

    def _vector(self, report: str) -> tuple[int, int] | None:
        match = _BITS.fullmatch(report)
        if match is None or len(match[2]) > -(-self.width // 4):
            return None
        number, bits = int(match[1]), int(match[2], 16)
        small = number * self.width < self.size and bits >> self.width == 0 and bits.bit_count() <= self.most
        return (number, bits) if small and report == self.text(number, bits) else None
