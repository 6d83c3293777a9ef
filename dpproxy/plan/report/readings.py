"""What is told of readings of reports: EXPLAIN's lines, and the notice beside an answer.

Knows: drafted readings, laws of claims. Must not know: data. No charge is told, since there is none: devices randomised what is
read, and what they claim of it is the policy's word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from math import sqrt
from typing import Any

from dpproxy.amounts import digits
from dpproxy.local.claims import Claim, Plane
from dpproxy.plan.measure.request import Drafted
from dpproxy.plan.model import ReadingAccount
from dpproxy.policy.model import Policy, Reports
from dpproxy.privacy.noise_error import each, normal_point
from dpproxy.privacy.readings import ReportCell


def reading_account(drafted: Drafted, policy: Policy) -> ReadingAccount:
    """Say of a reading what its notice needs."""
    source, reading = drafted.source, drafted.reading
    columns = tuple(
        (cell.label, mechanism(cell.claims[-1][1]), _spread(cell.claims[-1][1]), any(e.consistent for e in reading.estimates))
        for cell in reading.cells
    )
    labels = tuple(key.label for key in reading.keys)
    rules = _rules(drafted, policy)
    return ReadingAccount(
        source.table.name,
        number(rules.epsilon),
        rules.per_day,
        rules.at_least,
        labels,
        columns,
        normal_point(each(Fraction(95, 100))),
    )


def _rules(drafted: Drafted, policy: Policy) -> Reports:
    rules = policy.tables[drafted.source.table].reports
    assert rules is not None
    return rules


def reports_account(drafted: Drafted, policy: Policy) -> dict[str, Any]:
    """Return what EXPLAIN says of a reading, as JSON can hold it."""
    source, reading = drafted.source, drafted.reading
    rules, point = _rules(drafted, policy), normal_point(each(Fraction(95, 100)))
    told: dict[str, Any] = {
        "Table": source.table.name,
        "Plain Keys": [key.label for key in reading.keys],
        "Randomised": [_cell_account(cell, point) for cell in reading.cells],
        "Epsilon Of A Report": float(rules.epsilon),
        "Reports A Day": rules.per_day,
        "Charge": 0,
        "At Least": reading.at_least,
        "Plain": list(source.plain),
        "Promise": "local",
    }
    return told | ({"Days Kept": rules.keep_days} if rules.keep_days is not None else {})


def _cell_account(cell: ReportCell, point: float) -> dict[str, Any]:
    claim = cell.claims[-1][1]
    law, squares = claim.law, float(TYPICAL_SHARE) * TYPICAL_REPORTS**2
    found: dict[str, Any] = {
        "Column": cell.label,
        "Values": claim.candidates,
        "Mechanism": mechanism(claim),
        "P": float(law.p),
        "Q": float(law.q),
        "Error Times Root Of Reports": _spread(claim),
        "Within Times Root Of Reports": _spread(claim) * point,
        "A False Report Moves": float(law.influence),
    }
    return found | ({"Collisions": sqrt(float(law.collision) * squares)} if law.collision else {})


TYPICAL_REPORTS = 10**6
TYPICAL_SHARE = Fraction(5, 100)
"""Of how many reports the error by collisions is told, and how much of the square of them the squares of all counts are."""


def reports_lines(told: dict[str, Any]) -> Iterator[str]:
    """Yield what EXPLAIN says of a reading, as text."""
    keys = f" by {', '.join(told['Plain Keys'])}" if told["Plain Keys"] else ""
    kept = f", {told['Reports A Day'] * told['Days Kept']} in the {told['Days Kept']} days kept" if "Days Kept" in told else ""
    device = f"on the device epsilon {told['Epsilon Of A Report']:g} a report, {told['Reports A Day']} a day{kept}"
    if not told["Randomised"]:
        yield f"-> Reports of {told['Table']}{keys}: counted without noise; {device}; no charge"
    for cell in told["Randomised"]:
        values = f"{cell['Values']} values, " if cell["Values"] is not None else ""
        law = f"p {cell['P']:.4g}, q {cell['Q']:.4g}"
        yield f"-> Estimate of {told['Table']}{keys}: {cell['Column']}, {values}{cell['Mechanism']}, {law}; {device}; no charge"
        spread, within = cell["Error Times Root Of Reports"], cell["Within Times Root Of Reports"]
        yield f"     Noise of devices: sd {spread:.4g} x sqrt(reports), each cell within {within:.4g} x sqrt(reports)"
        yield f"     Collisions: {_collisions(cell)}"
        yield f"     A false report moves a count by at most {cell['A False Report Moves']:.3g}"
    plain = ", ".join(told["Plain"])
    yield f"     Without noise: {plain or 'no column'}"
    yield f"     Groups of fewer than {told['At Least']} reports are not shown"
    yield "     Promise: local, see PRIVACY.md 9"


def _collisions(cell: dict[str, Any]) -> str:
    return f"sd {cell['Collisions']:.4g} at {TYPICAL_REPORTS} reports" if "Collisions" in cell else "none"


def notice(
    account: ReadingAccount, reports: int, outside: int, hidden: tuple[int, Sequence[tuple[str | None, ...]]], rows: int
) -> Iterator[str]:
    """Yield what the notice says of a reading. `reports`: how many there were; `outside`: how many of them no device could have
    sent; `hidden`: how many plain groups are not shown, and the first of them; `rows` that are."""
    if not account.randomised:
        yield f"no epsilon charged: `{account.table}` holds reports of devices, whose estimates get no further noise"
    names, known = " and ".join(name for name, *_ in account.randomised), ", ".join(by for _, by, *_ in account.randomised)
    if account.randomised:
        days = f"at most {account.per_day} a day" if account.per_day > 1 else "at most 1 a day"
        yield (
            f"no epsilon charged: {names} was randomised on devices ({known}, epsilon {account.epsilon} a report, {days}); "
            f"of {reports} reports"
        )
    if len(account.randomised) == 1 and not account.keys and reports:
        _, _, spread, consistent = account.randomised[0]
        error = spread * sqrt(reports)
        yield f"typical error {error:.0f} of count(*), 95 % within {account.point * error:.0f}"
        if consistent and rows > 1:
            yield "counts are made to add up to the reports"
    if outside:
        yield f"{outside} more are left out: no device could have sent them"
    yield from _unshown(account, hidden)


def _unshown(account: ReadingAccount, hidden: tuple[int, Sequence[tuple[str | None, ...]]]) -> Iterator[str]:
    number, groups = hidden
    if not number:
        return
    few = f"fewer than {account.at_least} reports"
    if not account.keys:
        yield f"nothing is shown of {few}"
    elif number == len(groups):
        named = [[f"{label} {_quoted(value)}" for label, value in zip(account.keys, g, strict=True)] for g in groups]
        yield f"{', '.join(map(' and '.join, named))} {'is' if number == 1 else 'are'} not shown: {few}"
    else:
        yield f"{number} groups are not shown: {few} each"


def _quoted(value: str | None) -> str:
    return "NULL" if value is None else f"'{value}'"


def mechanism(claim: Claim) -> str:
    """Name a mechanism with its parameters."""
    return f"pgr({claim.base}, {claim.dimension})" if isinstance(claim, Plane) else claim.name


def number(value: Fraction) -> str:
    return digits(Decimal(value.numerator) / Decimal(value.denominator))


def _spread(claim: Claim) -> float:
    """The standard error of a count of few, over the root of the reports."""
    return sqrt(float(claim.law.per_report))
