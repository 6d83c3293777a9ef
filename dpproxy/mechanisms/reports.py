"""The second door: the function that turns an `Exact` of reports into a `Released`.

Knows: a plan's `Reading`, Arrow tables. Must not know: SQL, sessions, people. It opens an `Exact` only of queries that the
kernel has judged (`Reading.verdict`): those read reports, which devices have randomised, and public rows. Nothing is drawn
here. Whatever is not as the plan says is a `MechanismError` with a fixed text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dpproxy.decoding import bounds
from dpproxy.decoding import estimates as decoded
from dpproxy.decoding.decoders import Decodable
from dpproxy.decoding.estimates import Cell, Found
from dpproxy.local.claims import Claim, CountMean, Hadamard, Hashed
from dpproxy.local.hashes import number
from dpproxy.mechanisms.noise import Exact, Int64, MechanismError, Released
from dpproxy.privacy.noise_error import normal_point
from dpproxy.privacy.readings import NO_ESTIMATE, SPREAD, Estimate, Later, Listed, Reading, ReportCell, Weights

Booleans = npt.NDArray[np.bool_]

MOST_JOINT = 10_000
"""Pairs of candidates that two columns may have together."""


@dataclass(frozen=True)
class Told:
    """Counts of a reading: `reports`, those `outside` what a device could have sent, and `few`, the plain groups that are too
    small to be shown; `hidden`: their keys, of the first of them."""

    reports: int
    outside: int
    hidden: tuple[pa.Array, ...]
    few: int


def estimates(reading: Reading, exact: Exact) -> tuple[Released, Told]:
    """Estimate what devices' true values add up to, by plain group and candidate. Raises MechanismError."""
    if reading.verdict is None or reading.verdict.queries != reading.queries:
        raise MechanismError("queries that the kernel has not judged to be of reports")
    tables = exact._open()
    if len(tables) != len(reading.queries):
        raise MechanismError("the backend's answer has another number of tables than the plan")
    read = _Read(reading, tables)
    kept = [group for group in read.groups if group.reports >= reading.at_least]
    columns = [_columns(reading, group, read) for group in kept]
    keys = tuple(_repeated(read.table.column(f"k{i}"), kept, int(read.shown.sum())) for i in range(len(reading.keys)))
    keys += tuple(_candidate_keys(reading, read, len(kept)))
    width = len(reading.estimates) + 2 * len(reading.ends) + len(reading.spreads)
    none = np.zeros(0, dtype=np.int64)
    values = tuple(np.concatenate([c[i] for c in columns]) if columns else none for i in range(width))
    return Released(keys, values, len(kept) * int(read.shown.sum())), read.told()


@dataclass(frozen=True)
class _Group:
    """Reports of one plain group. `first`: a row of the backend's that has its keys; `parts`: by version."""

    first: int
    reports: int
    parts: tuple[_Part, ...]

    def total(self, number: int) -> int:
        """Return what backend column `number` adds up to."""
        return sum(part.total(number) for part in self.parts)


@dataclass(frozen=True)
class _Part:
    """Reports of one version: what they say in each column, backend columns, and which rows count reports."""

    cells: tuple[Cell, ...]
    totals: tuple[Int64, ...]
    whole: Booleans

    def total(self, number: int) -> int:
        """Return what backend column `number` adds up to over reports."""
        return int(self.totals[number][self.whole].sum())


class _Read:
    """The backend's rows, checked."""

    def __init__(self, reading: Reading, tables: Sequence[pa.Table]) -> None:
        self.reading, self.table = reading, tables[0]
        self.candidates = [_candidates(cell, tables) for cell in reading.cells]
        grouped = [len(c) for cell, c in zip(reading.cells, self.candidates, strict=True) if cell.grouped]
        self.rows = int(np.prod(grouped)) if grouped else 1
        self.shown = _shown_rows(reading, self.candidates)
        if len(self.candidates) > 1 and int(np.prod([len(c) for c in self.candidates])) > MOST_JOINT:
            raise MechanismError("two columns of reports have too many pairs of values")
        self.totals = [_int64(self.table, f"a{i}") for i in range(1 + max((_most(e) for e in reading.estimates), default=0))]
        self.versions = _int64(self.table, "v") if len(reading.versions) > 1 else None
        self.cells = [_integers(cell, self.table.column(f"r{i}"), self.candidates[i]) for i, cell in enumerate(reading.cells)]
        self.usable, self.whole = self._usable()
        self.codes, self.firsts = _plain_groups(
            [self.table.column(f"k{i}") for i in range(len(reading.keys))], self.table.num_rows
        )
        self.groups = tuple(self._groups())

    def _usable(self) -> tuple[Booleans, Booleans]:
        """Rows whose report some device could have sent, and those of them that stand for reports: not for bits that are set."""
        found, whole = np.ones(self.table.num_rows, dtype=np.bool_), np.ones(self.table.num_rows, dtype=np.bool_)
        for i, cell in enumerate(self.reading.cells):
            known = np.zeros_like(found)
            for version, claim in cell.claims:
                mine, space = np.ones_like(found) if self.versions is None else self.versions == version, claim.space
                known |= mine & (self.cells[i] >= 0) & (self.cells[i] < space.length)
                if space.form == "bits":
                    whole &= ~mine | (self.cells[i] >= space.size)
            found &= known
        return found, found & whole

    def _groups(self) -> Iterator[_Group]:
        """All plain groups, in the order of their keys' numbers."""
        order = np.argsort(self.codes, kind="stable")
        ends = np.searchsorted(self.codes[order], np.arange(len(self.firsts) + 1))
        for group, first in enumerate(self.firsts):
            mine = order[ends[group] : ends[group + 1]]
            mine = mine[self.usable[mine]]
            parts = tuple(self._parts(mine))
            yield _Group(int(first), sum(part.total(0) for part in parts), parts)

    def _parts(self, mine: Int64) -> Iterator[_Part]:
        for version in self.reading.versions:
            rows = mine if self.versions is None else mine[self.versions[mine] == version]
            cells = tuple(
                Cell(_decodable(dict(cell.claims)[version]), values[rows], _numbered(dict(cell.claims)[version], candidates))
                for cell, values, candidates in zip(self.reading.cells, self.cells, self.candidates, strict=True)
            )
            yield _Part(cells, tuple(total[rows] for total in self.totals), self.whole[rows])

    def told(self) -> Told:
        reports, outside = (int(self.totals[0][rows].sum()) for rows in (self.whole, ~self.usable))
        names = [self.table.column(f"k{i}") for i in range(len(self.reading.keys))]
        small = [g.first for g in self.groups if g.reports < self.reading.at_least]
        hidden = tuple(_array(column.take(pa.array(small[:MOST_NAMED], pa.int64()))) for column in names)
        return Told(reports, outside, hidden, len(small))


MOST_NAMED = 3
"""Groups that are named as not shown."""


def _shown_rows(reading: Reading, candidates: Sequence[Sequence[str]]) -> Booleans:
    """Which rows of a plain group are shown: those of candidates that are asked for."""
    found = np.ones(1, dtype=np.bool_)
    for cell, values in zip(reading.cells, candidates, strict=True):
        if cell.grouped:
            shown = _known(cell.shown, values)
            asked = np.ones(len(values), dtype=np.bool_) if shown is None else np.array(shown) != 0
            found = np.outer(found, asked).ravel()
    return found


def _columns(reading: Reading, group: _Group, read: _Read) -> list[Int64]:
    """All columns of one plain group, a row for each candidate."""
    rows = read.rows
    found = [_found(estimate, group, read.candidates) for estimate in reading.estimates]
    shown = [_shown(estimate, one, group, rows) for estimate, one in zip(reading.estimates, found, strict=True)]
    hidden = [_few(estimate, group, reading.at_least) for estimate in reading.estimates]
    columns = [np.full(rows, NO_ESTIMATE) if few else values for few, values in zip(hidden, shown, strict=True)]
    for end in reading.ends:
        low, high = found[end.estimate].ends(normal_point(1 - end.failure))
        middle = shown[end.estimate]
        columns += [_spread_out(middle - low, rows), _spread_out(high - middle, rows)]
    for i in reading.spreads:
        columns.append(_spread_out(np.ceil(np.sqrt(np.maximum(found[i].variances, 0)) * SPREAD), rows))
    return [column[read.shown] for column in columns]


def _found(estimate: Estimate, group: _Group, candidates: Sequence[Sequence[str]]) -> Found:
    """An estimate over all versions of the claim, whose variances add up."""
    listed = [_known(weights, values) for weights, values in zip(estimate.weights, candidates, strict=True)]
    parts = [_part(estimate, listed, part) for part in group.parts]
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.plus(part)
    return whole


def _known(weights: Weights | None, candidates: Sequence[str]) -> decoded.Weights | None:
    if isinstance(weights, Later):
        raise MechanismError("weights that are not listed yet")
    return weights.of(candidates) if isinstance(weights, Listed) else weights


def _part(estimate: Estimate, listed: Sequence[decoded.Weights | None], part: _Part) -> Found:
    cells, amounts, squares = part.cells, part.totals[estimate.total], part.totals[estimate.squares]
    if estimate.exact:
        return decoded.exact(part.total(estimate.total))
    if estimate.noise is not None:
        return decoded.noisy(part.total(estimate.total), part.total(estimate.among), estimate.noise)
    if len(cells) > 1:
        return decoded.joint(cells, listed, amounts, squares, counts=estimate.counts)
    (weights,), (asked,) = listed, estimate.weights
    if weights is None:
        raise MechanismError("an estimate of nothing")
    unlisted = asked.rest if isinstance(asked, Listed) else 0
    return decoded.single(cells[0], weights, amounts, squares, counts=estimate.counts, unlisted=unlisted)


def _shown(estimate: Estimate, found: Found, group: _Group, rows: int) -> Int64:
    if estimate.consistent:
        return bounds.consistent(found.values, group.total(estimate.total))
    return _spread_out(np.rint(found.values), rows)


def _few(estimate: Estimate, group: _Group, at_least: int) -> bool:
    return group.total(estimate.among) < at_least


def _spread_out(values: Any, rows: int) -> Int64:
    """One value for all candidates, or each its own."""
    whole: Int64 = np.asarray(values, dtype=np.float64).astype(np.int64)
    return whole if whole.size == rows else np.full(rows, whole[0])


def _most(estimate: Estimate) -> int:
    return max(estimate.total, estimate.among, estimate.squares)


# --- columns of the backend


def _int64(table: pa.Table, name: str) -> Int64:
    if name not in table.column_names or not pa.types.is_int64(table.column(name).type) or table.column(name).null_count:
        raise MechanismError("a column of reports is not the integer column of the plan")
    found: Int64 = table.column(name).to_numpy()
    return found


def _integers(cell: ReportCell, column: pa.ChunkedArray, candidates: Sequence[str]) -> Int64:
    """Reports as decoders take them; -1 for what is none."""
    form = {claim.space.form for _, claim in cell.claims}
    if form == {"value"}:
        column = pc.index_in(column.cast(pa.string()), pa.array(candidates, pa.string()))
    elif form not in ({"boolean"}, {"integer"}, {"bits"}):
        raise MechanismError("reports in a form that is not read")
    numbers: Int64 = np.asarray(pc.fill_null(column.cast(pa.int64()), -1))
    return numbers


def _candidates(cell: ReportCell, tables: Sequence[pa.Table]) -> Sequence[str]:
    """The candidates of a cell, in the order that numbers them."""
    if cell.values is None:
        raise MechanismError("candidates that are not listed yet")
    if not isinstance(cell.values, int):
        return cell.values
    listed: list[str] = tables[cell.values].column("v0").cast(pa.string()).to_pylist()
    most = max((claim.candidates or 0 for _, claim in cell.claims), default=0)
    if None in listed or len(set(listed)) != len(listed) or (most and len(listed) != most):
        raise MechanismError("a public table lists other candidates than the claim has")
    return listed


def _plain_groups(keys: Sequence[pa.ChunkedArray], rows: int) -> tuple[Int64, Int64]:
    """The number of each row's group, and of each group a row."""
    if not keys:
        return np.zeros(rows, dtype=np.int64), np.zeros(min(rows, 1), dtype=np.int64)
    codes = np.stack([_codes(key) for key in keys])
    _, firsts, numbers = np.unique(codes, axis=1, return_index=True, return_inverse=True)
    return numbers.reshape(-1).astype(np.int64), firsts.astype(np.int64)


def _codes(key: pa.ChunkedArray) -> Int64:
    encoded = _array(key).dictionary_encode(null_encoding="encode")
    found: Int64 = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _repeated(key: pa.ChunkedArray, groups: Sequence[_Group], rows: int) -> pa.Array:
    places = np.repeat(np.array([g.first for g in groups], dtype=np.int64), rows)
    return _array(key.take(pa.array(places)))


def _array(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    if not isinstance(found, pa.ChunkedArray):
        return found
    return found.chunk(0) if found.num_chunks else pa.array([], found.type)


def _candidate_keys(reading: Reading, read: _Read, groups: int) -> Iterator[pa.Array]:
    """The candidates of the cells that are keys, the last of them changing first."""
    grouped = [c for cell, c in zip(reading.cells, read.candidates, strict=True) if cell.grouped]
    sizes = [len(c) for c in grouped]
    for i, values in enumerate(grouped):
        inner, outer = int(np.prod(sizes[i + 1 :])), int(np.prod(sizes[:i]))
        places = np.tile(np.repeat(np.arange(len(values)), inner), outer)[read.shown]
        yield pa.array(values, pa.string()).take(pa.array(np.tile(places, groups)))


def _decodable(claim: Claim) -> Decodable:
    """Raises MechanismError for a claim whose reports support no candidates."""
    if not isinstance(claim, Decodable):
        raise MechanismError("reports that support no candidates")
    return claim


def _numbered(claim: Claim, candidates: Sequence[str]) -> Int64:
    """Candidates as decoders take them: by their place, or by a hash of their texts."""
    if isinstance(claim, Hashed | CountMean | Hadamard):
        return np.array([number(text) for text in candidates], dtype=np.int64)
    return np.arange(len(candidates))
