"""Bugs to be found: each puts something else in one place of a `Subject`. Taken from published violations in other
systems, and from what independent attacks on this one found before it was mended.

Knows: plans, the door, the texts of generated SQL. Must not know: how bugs are found. A change of SQL that changes nothing
fails: a bug that was not planted cannot be caught.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from dpproxy.audit.bench import Subject
from dpproxy.audit.door_account import Call
from dpproxy.ledger.ledger import Charge, ChargeRequest, Ledger
from dpproxy.mechanisms import release as door
from dpproxy.mechanisms.noise import Exact, FoundGroups, Int64, Noise, Released
from dpproxy.mechanisms.noise_sources import DefaultNoise, OwnNoise
from dpproxy.plan.model import Plan
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_scale import MechanismName
from dpproxy.sql.template import Template

_LATE = 8
"""Answers that are told before the first of them is charged."""
Part = Literal["replay", "black box", "attacks"]

TOTALS = "SELECT region, sum(score) FROM people GROUP BY region"
ORDERS = "SELECT category, count(*), sum(amount) FROM orders GROUP BY category"
NOTES = "SELECT note, count(*) FROM orders GROUP BY note"
VISITS = "SELECT page, count(*), sum(secs) FROM visits GROUP BY page"
COUNT = "SELECT count(*) FROM people"
TWO = "SELECT count(*), count(*) FILTER (WHERE income < 1000000) FROM people"
REGIONS = "SELECT region, count(*) FROM people WHERE name = 'only name' GROUP BY region"
NAMES = "SELECT p.name, count(*) FROM people AS p FULL JOIN orders AS o ON o.pid = p.pid AND o.amount > 5 GROUP BY p.name"
JOINED = "SELECT count(*) FROM people AS p JOIN orders AS o ON o.pid = p.pid WHERE p.name = 'only name'"
DISTINCT = "SELECT count(DISTINCT order_id) FROM orders"
WINDOW = (
    "SELECT count(*) FROM (SELECT row_number() OVER (PARTITION BY pid ORDER BY amount) AS n FROM orders) AS t WHERE n % 2 = 1"
)
MEDIAN = "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY amount) FROM orders"


@dataclass(frozen=True)
class Planted:
    """A bug: its name, where such a bug was seen, the statement that shows it, the part of the audit that has to catch it."""

    name: str
    source: str
    sql: str
    part: Part
    subject: Subject


def _sql(pattern: str, replacement: str) -> Subject:
    """Generated SQL with something else in it. Raises ValueError where the pattern is not found."""

    def template(given: Template) -> Template:
        return replace(given, parts=tuple(re.sub(pattern, replacement, p) if isinstance(p, str) else p for p in given.parts))

    def changed(plan: Plan) -> Plan:
        broken = replace(plan, measurements=tuple(replace(m, queries=tuple(map(template, m.queries))) for m in plan.measurements))
        if broken == plan:
            raise ValueError(f"nothing was planted: the generated SQL has no {pattern}")
        return broken

    return Subject(changed=changed)


def _claim(change: Callable[[Measurement], Measurement]) -> Subject:
    return Subject(changed=lambda plan: replace(plan, measurements=tuple(map(change, plan.measurements))))


class _Other:
    """The noise that is drawn in production; what is planted overrides some of it."""

    def __init__(self, noise: Noise | None = None) -> None:
        self._noise = noise or DefaultNoise()
        self.calls: list[Call] = []

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return self.drawn("laplace", scale, values)

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return self.drawn("gaussian", scale, values)

    def entropy(self, size: int) -> bytes:
        return self._noise.entropy(size)

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        return self._noise.loss(mechanism, scale, l0, linf)

    def drawn(self, mechanism: MechanismName, scale: Fraction, values: Int64) -> Int64:
        noisy = (self._noise.laplace if mechanism == "laplace" else self._noise.gaussian)(scale, values)
        self.calls.append(Call(mechanism, scale, values, noisy))
        return noisy


class _HalfTheNoise(_Other):
    def drawn(self, mechanism: MechanismName, scale: Fraction, values: Int64) -> Int64:
        return super().drawn(mechanism, scale / 2, values)


class _SameNoise(_Other):
    """Noise drawn once for all columns of an answer."""

    def drawn(self, mechanism: MechanismName, scale: Fraction, values: Int64) -> Int64:
        if not self.calls:
            return super().drawn(mechanism, scale, values)
        return values + self.calls[0].noisy - self.calls[0].values


class _SeededByData(_Other):
    def drawn(self, mechanism: MechanismName, scale: Fraction, values: Int64) -> Int64:
        random = np.random.default_rng(values.astype(np.uint64) % 2**32)
        self._noise = OwnNoise(random.bytes)
        return super().drawn(mechanism, scale, values)


class _ZerosAlone(_Other):
    """Empty cells get no noise: "there is nothing to protect"."""

    def drawn(self, mechanism: MechanismName, scale: Fraction, values: Int64) -> Int64:
        return np.where(values == 0, 0, super().drawn(mechanism, scale, values))


def _door(after: Callable[[Measurement, Released, list[Call]], Released], noise: type[_Other] = _Other) -> Subject:
    """The door with something done after it, which sees what was given noise."""

    def released(m: Measurement, exact: Exact, given: Noise, found: FoundGroups | None) -> Released:
        seen = noise(given)
        return after(m, door.release(m, exact, seen, found), seen.calls)

    return Subject(release=released)


def _as_released(m: Measurement, released: Released, calls: list[Call]) -> Released:
    return released


def _with_first(released: Released, values: Any) -> Released:
    return replace(released, values=(values, *released.values[1:]))


def _first_exact(m: Measurement, released: Released, calls: list[Call]) -> Released:
    return _with_first(released, calls[0].values)


def _null_exact(m: Measurement, exact: Exact, noise: Noise, found: FoundGroups | None) -> Released:
    """The group of NULL is shown whatever its size, as it is."""
    released, (every, exactly) = door.release(m, exact, noise, found), _everything(m, exact)
    null = np.flatnonzero(np.array(every.keys[0].is_null()))
    known = np.flatnonzero(~np.array(released.keys[0].is_null()))
    keys = pa.concat_arrays([released.keys[0].take(pa.array(known)), every.keys[0].take(pa.array(null))])
    values = tuple(np.r_[v[known], exactly[i][null]] for i, v in enumerate(released.values))
    return Released((keys,), values, len(keys))


def _everything(m: Measurement, exact: Exact) -> tuple[Released, list[Int64]]:
    """All groups, and what was given noise in them."""
    seen = _Other()
    every = door.release(replace(m, threshold=None, dense=True), exact, seen, None)
    return every, [call.values for call in seen.calls]


def _in_doubles(m: Measurement, released: Released, calls: list[Call]) -> Released:
    noise = np.random.default_rng().laplace(scale=float(calls[0].scale), size=calls[0].values.size)
    return _with_first(released, calls[0].values + noise)


def _exact_threshold(m: Measurement, exact: Exact, noise: Noise, found: FoundGroups | None) -> Released:
    """Whoever has enough units exactly is shown, with noise on what is shown."""
    seen, threshold = _Other(noise), m.threshold
    door.release(m, exact, seen, found)
    every, exactly = _everything(m, exact)
    assert threshold is not None
    kept = np.flatnonzero(exactly[threshold.basis] >= threshold.min_units)
    noisy = (own + call.noisy - call.values for own, call in zip(exactly, seen.calls, strict=True))
    return Released(tuple(key.take(pa.array(kept)) for key in every.keys), tuple(v[kept] for v in noisy), int(kept.size))


class _OtherLedger:
    """A ledger that something stands before; what is planted overrides `submit`."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def __getattr__(self, name: str) -> Any:
        return getattr(self.ledger, name)


class ChargesLate(_OtherLedger):
    """The answer is given first, the charge is recorded some answers later."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._waiting: list[ChargeRequest] = []

    def submit(self, request: ChargeRequest) -> Future[Charge]:
        """Say at once that it is charged, and record what was said a while ago."""
        if len(self._waiting) >= _LATE:
            return self.ledger.submit(self._waiting.pop(0))
        self._waiting.append(request)
        return _told(request)


class ChargesOnce(_OtherLedger):
    """The same statement is charged once, and answered anew each time."""

    def __init__(self, ledger: Ledger) -> None:
        super().__init__(ledger)
        self._known: set[str] = set()

    def submit(self, request: ChargeRequest) -> Future[Charge]:
        """Charge what was not asked before."""
        if request.statement not in self._known:
            self._known.add(request.statement)
            return self.ledger.submit(request)
        return _told(request)


def _told(request: ChargeRequest) -> Future[Charge]:
    """What a ledger says of a charge, without a record of it."""
    told: Future[Charge] = Future()
    same = {f.name: getattr(request, f.name) for f in fields(Charge) if f.name != "sequence"}
    told.set_result(Charge(sequence=0, **same))
    return told


def _fewer_groups(m: Measurement) -> Measurement:
    return replace(m, l0=1)


def _sharper(m: Measurement) -> Measurement:
    return replace(m, selections=tuple(replace(s, sensitivity=1) for s in m.selections))


PLANTED: tuple[Planted, ...] = (
    Planted(
        "a column without a clamp",
        "smartnoise-sdk #622 (covariance of values that were not clipped); diffprivlib #105 (range of one bound)",
        TOTALS,
        "replay",
        _sql(r"CASE WHEN v0 BETWEEN -100 AND 100 .*? END", "v0"),
    ),
    Planted(
        "the choice of a unit's groups is dropped",
        "Wilson et al. 2020, section 5: every bound has to be enforced in the query; finding P1",
        ORDERS,
        "replay",
        _sql(r"rank <= 2\b", "rank <= 1000"),
    ),
    Planted(
        "sensitivity of one group instead of all",
        "finding P1: fewer groups claimed than a unit can reach; smartnoise-core #356",
        ORDERS,
        "replay",
        _claim(_fewer_groups),
    ),
    Planted(
        "rows of a unit in a group are not bounded",
        "Wilson et al. 2020, section 3: a unit with many rows",
        ORDERS,
        "replay",
        _sql(r"CASE WHEN n0 > 3 THEN 3 ELSE n0 END", "n0"),
    ),
    Planted(
        "the bound of count(DISTINCT) is forgotten",
        "Desfontaines et al. 2022 on count distinct of several rows a unit; the same class as finding P1",
        DISTINCT,
        "replay",
        _sql(r"rank <= 3\b", "rank <= 1000"),
    ),
    Planted(
        "a row that an outer join makes counts for nothing",
        "finding P2: a key stays constant for a unit although a FULL JOIN makes it NULL",
        NAMES,
        "replay",
        _claim(_fewer_groups),
    ),
    Planted(
        "a join pairs rows of different units",
        "Johnson, Near, Song 2018 (FLEX) on joins; PINQ's stability of Join",
        JOINED,
        "replay",
        _sql(r'\(\w+\."pid" = \w+\."pid"\)', "TRUE"),
    ),
    Planted(
        "a window sees rows of other units",
        "the class of finding P2: what is computed beside one unit's rows depends on others'",
        WINDOW,
        "replay",
        _sql(r'PARTITION BY t1\."pid"', "PARTITION BY 1"),
    ),
    Planted(
        "rows of nobody count",
        "attack catalogue: NULL units have no owner whose loss is bounded",
        ORDERS,
        "replay",
        _sql(r'\(t1\."pid" IS NOT NULL\)', "TRUE"),
    ),
    Planted(
        "contributions are not scaled to their norm",
        "Opacus and others, by Re:cord-play (Cebere et al. 2026): clipping that does not clip",
        VISITS,
        "replay",
        _sql(r" / m0\) AS BIGINT", ") AS BIGINT"),
    ),
    Planted(
        "only declared groups that exist are shown",
        "Desfontaines, Voss, Gipson, Mandayam 2022, partition selection: the presence of a group is an answer",
        REGIONS,
        "replay",
        _sql(r"FROM d LEFT JOIN a", "FROM d JOIN a"),
    ),
    Planted(
        "a value of one person makes the statement fail",
        "Haeberlen, Pierce, Narayan 2011 (Differential privacy under fire); finding P3",
        COUNT,
        "replay",
        _sql(r'FROM "main"\."people" AS t1', 'FROM (SELECT * FROM "main"."people" WHERE income::integer < 300000) AS t1'),
    ),
    Planted(
        "scores of a percentile are too sharp",
        "finding P1: each selection charged for fewer contributions than there are",
        MEDIAN,
        "replay",
        _claim(_sharper),
    ),
    Planted(
        "a threshold without noise",
        "Lyu, Su, Li 2017, on variants of the sparse vector technique; Korolova et al. 2009",
        NOTES,
        "replay",
        Subject(release=_exact_threshold),
    ),
    Planted(
        "a column that gets no noise", "smartnoise-sdk #317: SUM without bounds was exact", ORDERS, "replay", _door(_first_exact)
    ),
    Planted(
        "empty cells are left alone",
        "data-dependent control flow (Cebere et al. 2026, arXiv 2602.17454)",
        REGIONS,
        "replay",
        _door(_as_released, _ZerosAlone),
    ),
    Planted(
        "the NULL group is told exactly", "attack catalogue: NULL and key probing", NOTES, "replay", Subject(release=_null_exact)
    ),
    Planted(
        "noise in floating point",
        "Mironov 2012; diffprivlib #19 and #94; Haney et al. 2022 (arXiv 2207.13793)",
        COUNT,
        "replay",
        _door(_in_doubles),
    ),
    Planted(
        "half the noise that is charged",
        "smartnoise-sdk #621 (an odometer that counts less than is spent); Lokna et al. 2023 (Delta-Siege)",
        COUNT,
        "black box",
        Subject(noise=_HalfTheNoise()),
    ),
    Planted(
        "one noise for all columns",
        "Dinur & Nissim 2003: differences must be noisy as well",
        TWO,
        "black box",
        _door(_as_released, _SameNoise),
    ),
    Planted(
        "noise seeded by the data",
        "Gadotti et al. 2019 (When the signal is in the noise), on Diffix's sticky noise",
        TOTALS,
        "black box",
        Subject(noise=_SeededByData()),
    ),
    Planted(
        "charged after the answer",
        "Haeberlen, Pierce, Narayan 2011, attacks on budgets; finding A4 (what is charged and what is told come apart)",
        COUNT,
        "attacks",
        Subject(ledger=ChargesLate),
    ),
    Planted(
        "the same question is charged once and measured anew",
        "Gadotti et al. 2019; finding A2 (the same measurement drawn until it says something)",
        COUNT,
        "attacks",
        Subject(ledger=ChargesOnce),
    ),
)
