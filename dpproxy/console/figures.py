"""Amounts and times as pages write them: few digits, the same number of them, a unit.

Knows: numbers. Must not know: what they are of.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Final, cast

from markupsafe import Markup, escape

from dpproxy import budget_windows as windows
from dpproxy.amounts import MICRO
from dpproxy.budget_windows import Window
from dpproxy.ledger.ledger import Charge
from dpproxy.operations.status import AccountStatus, Status
from dpproxy.privacy.accountant import Limit, effective_epsilon
from dpproxy.privacy.loss import ZERO, Loss
from dpproxy.telemetry.tallies import StatementEvent

SPANS: Final = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"))


def epsilon(millionths: int) -> str:
    """Write epsilon with three digits behind the point, which are enough to compare, and more where it is smaller than that."""
    if 0 < abs(millionths) < 500:
        return f"{millionths / MICRO:.6f}"
    return f"{millionths / MICRO:,.3f}"


def percent(part: float) -> str:
    """Write a part of 1."""
    return f"{part * 100:.1f} %" if 0 < part < 0.1 else f"{part * 100:.0f} %"


def moment(seconds: float) -> str:
    """Write a time since 1970, in UTC."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%d %H:%M}"


def exactly(seconds: float) -> str:
    """Write a time as HTML's `datetime` has it."""
    return f"{dt.datetime.fromtimestamp(seconds, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


def span(seconds: float) -> str:
    """Write how long something takes, in its largest unit."""
    for size, unit in SPANS:
        if seconds >= size:
            number = seconds / size
            return f"{number:.1f} {unit}" if number < 10 else f"{number:,.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"


def number(value: float) -> str:
    """Write a number of any size with four digits that count."""
    return f"{value:,.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


# How a budget was spent in its window, and when it will be spent at this pace.
#
# Knows: accounts, charges, windows. Must not know: pages. The line is made of the ledger's charges by the accountant's own rule
# (`accountant.effective_epsilon`) and ends where the ledger says the account stands. The pace is what the window has cost by
# now, over the time since it began; of a window that never ends, since the first charge that is known.


POINTS: Final = 120
"""Of a line: more cannot be told apart on a page."""
LEAST: Final = 60.0
"""Seconds of a window after which there is a pace."""


@dataclass(frozen=True)
class BurnDown:
    """An account in its window. `points`: when, and how many millionths of epsilon of the limit were left from then on;
    `begins`: of the window, or of what is known of one that never ends; `spent_by`: when the budget is spent at this pace, or
    None where the window ends before, or nothing was spent."""

    account: AccountStatus
    points: tuple[tuple[float, int], ...]
    begins: float
    now: float
    spent_by: float | None

    @property
    def ends(self) -> float:
        """Return where the picture ends."""
        return self.account.resets if self.account.resets is not None else max(self.now, self.spent_by or 0.0)


def burn_down(account: AccountStatus, charges: Sequence[Charge], now: float) -> BurnDown:
    """Return the line of an account. `charges`: of its dataset, in order."""
    begins = windows.start(cast("Window", account.window), datetime.fromtimestamp(now, UTC)).timestamp()
    own = [(charge.at.timestamp(), _loss(account, charge)) for charge in charges if charge.at.timestamp() >= begins]
    losses = [(at, loss) for at, loss in own if loss]
    if account.window == "never":
        begins = losses[0][0] if losses else now
    spent = _spent(losses, Limit(account.limit_epsilon, account.limit_delta, cast("Window", account.window)))
    unseen = account.spent_epsilon - (spent[-1][1] if spent else 0)  # charged before what is known, or since it was read
    limit = account.limit_epsilon
    points = [(at, max(0, limit - unseen - amount)) for at, amount in ((begins, 0), *spent)]
    return BurnDown(account, (*points, (now, max(0, limit - account.spent_epsilon))), begins, now, _end(account, begins, now))


def _loss(account: AccountStatus, charge: Charge) -> Loss:
    if account.scope == "dataset":
        return charge.dataset_loss
    return charge.loss if account.name == (charge.role if account.scope == "role" else charge.user) else ZERO


def _spent(losses: Sequence[tuple[float, Loss]], limit: Limit) -> list[tuple[float, int]]:
    """What was spent after charges, of which not too many are looked at."""
    step, total, found = max(1, len(losses) // POINTS), ZERO, []
    for number, (at, loss) in enumerate(losses, 1):
        total = total + loss
        if number % step == 0 or number == len(losses):
            found.append((at, effective_epsilon(total, limit)))
    return found


def _end(account: AccountStatus, begins: float, now: float) -> float | None:
    passed = max(now - begins, 1.0)
    if account.spent_epsilon <= 0 or passed < LEAST:
        return None
    end = now + max(0, account.limit_epsilon - account.spent_epsilon) * passed / account.spent_epsilon
    return end if account.resets is None or end < account.resets else None


# What many charges and events come to: by role, user and statement; refusals by their reason.
#
# Knows: charges, events. Must not know: pages. Charges are added up as they stand in the ledger (basic composition): who caused
# how much. What an account is charged for all of them together may be less.


MOST: Final = 12
"""Lines of a table of the largest."""


@dataclass(frozen=True)
class Share:
    """One of those that caused charges. `part`: of the whole, from 0 to 1; `last`: when it was charged last."""

    name: str
    epsilon: int
    charges: int
    part: float
    last: float


def shares(charges: Iterable[Charge], name: Callable[[Charge], str]) -> tuple[Share, ...]:
    """Return who caused the most, the largest first."""
    sums: dict[str, tuple[int, int, float]] = {}
    for charge in charges:
        epsilon, count, _ = sums.get(name(charge), (0, 0, 0.0))
        sums[name(charge)] = epsilon + charge.loss.epsilon, count + 1, charge.at.timestamp()
    whole = sum(epsilon for epsilon, _, _ in sums.values())
    found = [Share(key, epsilon, count, epsilon / whole if whole else 0.0, last) for key, (epsilon, count, last) in sums.items()]
    return tuple(sorted(found, key=lambda share: (-share.epsilon, share.name))[:MOST])


@dataclass(frozen=True)
class Refused:
    """What was refused for one reason: how often, whose statement last, and when."""

    dataset: str
    role: str
    reason_class: str
    code: str
    reason: str
    statement: str
    count: int
    charged: int
    last: float


def refusals(events: Sequence[StatementEvent]) -> tuple[Refused, ...]:
    """Return refusals and failures by role, reason and statement, the latest first."""
    found: dict[tuple[str, ...], Refused] = {}
    for event in sorted(events, key=lambda event: event.at):
        if event.verdict not in ("refused", "failed"):
            continue
        key = (event.dataset, event.role, event.reason_class, event.code, event.reason, event.statement)
        before = found.get(key)
        count, charged = (before.count, before.charged) if before else (0, 0)
        found[key] = Refused(*key, count + 1, charged + (event.verdict == "failed"), event.at)
    return tuple(sorted(found.values(), key=lambda refused: -refused.last))


@dataclass(frozen=True)
class Reuse:
    """What one role asked since the processes started: statements by what became of them, what they cost and what repeats
    saved."""

    dataset: str
    role: str
    answered: int
    reused: int
    refused: int
    spent: int
    saved: int

    @property
    def part(self) -> float:
        """Return what repeats saved, of what everything would have cost."""
        return self.saved / (self.saved + self.spent) if self.saved else 0.0


def reuse(statuses: Iterable[Status]) -> tuple[Reuse, ...]:
    """Add up what processes have counted."""
    found: dict[tuple[str, str], Counter[str]] = {}
    for counted in (status.counted for status in statuses):
        for (dataset, role, verdict), count in counted.statements:
            found.setdefault((dataset, role), Counter())[verdict] += count
        for name, amounts in (("spent", counted.spent), ("saved", counted.saved)):
            for (dataset, role), amount in amounts:
                found.setdefault((dataset, role), Counter())[name] += amount
    names = ("answered", "reused", "refused", "spent", "saved")
    return tuple(Reuse(*key, *(sums[name] for name in names)) for key, sums in sorted(found.items()))


# Pictures as SVG within the page, and the same numbers for uPlot, which draws them anew where there is JavaScript.
#
# Knows: points, axes. Must not know: what is drawn. There is no colour and no style in an SVG here: the page's stylesheet has
# both, for light and dark, and the pages' rule of content allows no other.


WIDTH: Final = 640
HEIGHT: Final = 200
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 12, 24
"""Margins: for the numbers of the axes."""
GROUPS: Final = (10, 100_000)
"""Sizes of groups between which errors are drawn: below, no group should be looked at; above, noise is nothing."""

Point = tuple[float, float]


@dataclass(frozen=True)
class Axis:
    """One direction: from where to where, and its label. `log`: in tenfolds."""

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]
    log: bool = False

    def place(self, value: float) -> float:
        """Return where a value is, from 0 to 1."""
        low, high, at = (math.log10(v) if self.log else v for v in (self.low, self.high, value))
        return min(1.0, max(0.0, (at - low) / (high - low))) if high > low else 0.0


@dataclass(frozen=True)
class Picture:
    """A picture: `svg` with a text for who cannot see it, and `data` for uPlot."""

    svg: Markup
    data: dict[str, Any]


def burn_picture(line: BurnDown) -> Picture:
    """Draw what is left of a budget over its window, and, dashed, how it goes on at this pace."""
    account = line.account
    limit = max(account.limit_epsilon, 1) / MICRO
    end = max(line.ends, line.begins + 60)
    left = [(at, amount / MICRO) for at, amount in line.points]
    ahead = _ahead(line, end)
    x = Axis(line.begins, end, tuple((at, moment(at)[:10]) for at in (line.begins, (line.begins + end) / 2, end)))
    y = Axis(0, limit, tuple((limit * part, f"{limit * part:.3g}") for part in (0, 0.5, 1)))
    told = f"Epsilon left of {account.scope} {account.name}: {left[-1][1]:.3f} of {limit:.3f} at {moment(line.now)} UTC"
    svg = _svg(told, x, y, (("line", _steps(left)), ("ahead", ahead)))
    times = sorted({end, *(at for at, _ in (*left, *ahead))})
    data = {
        "kind": "time",
        "x": times,
        "y": [limit],
        "series": [
            {"label": "epsilon left", "values": [_at(left, at) if at <= line.now else None for at in times], "stepped": True},
            {"label": "at this pace", "values": [dict(ahead).get(at) for at in times], "dashed": True},
        ],
    }
    return Picture(svg, data)


def _ahead(line: BurnDown, end: float) -> list[Point]:
    left, spent = (a / MICRO for a in (line.points[-1][1], line.account.spent_epsilon))
    if spent <= 0 or line.now >= end:
        return []
    until = min(end, line.spent_by or end)
    return [(line.now, left), (until, max(0.0, left - spent * (until - line.now) / max(line.now - line.begins, 1.0)))]


def error_picture(within: float) -> Picture:
    """Draw what part of a group's size an error of `within` people or rows is, by that size."""
    low, high = GROUPS
    sizes = [low * (high / low) ** (i / 60) for i in range(61)]
    points = [(size, min(1.0, within / size)) for size in sizes]
    x = Axis(low, high, tuple((10.0**i, f"{10**i:,}") for i in range(1, 6)), log=True)
    y = Axis(0, 1, tuple((part, percent(part)) for part in (0, 0.5, 1)))
    told = f"Error as a part of the group: 100 % at {within:,.4g} rows, 10 % at {within * 10:,.4g}, 1 % at {within * 100:,.4g}"
    series = [{"label": "error, % of the group", "values": [round(part * 100, 3) for _, part in points]}]
    data = {"kind": "log", "x": [round(size, 1) for size in sizes], "y": [100], "series": series}
    return Picture(_svg(told, x, y, (("line", points),)), data)


def _steps(points: Sequence[Point]) -> list[Point]:
    """What was left stays left until the next charge."""
    found = list(points[:1])
    for (_, before), (at, value) in pairwise(points):
        found += [(at, before), (at, value)]
    return found


def _at(points: Sequence[Point], at: float) -> float:
    return next((value for time, value in reversed(points) if time <= at), points[0][1])


def _svg(told: str, x: Axis, y: Axis, lines: Sequence[tuple[str, Sequence[Point]]]) -> Markup:
    across: Callable[[float], str] = lambda v: f"{LEFT + x.place(v) * (WIDTH - LEFT - RIGHT):.1f}"  # noqa: E731
    down: Callable[[float], str] = lambda v: f"{HEIGHT - BOTTOM - y.place(v) * (HEIGHT - TOP - BOTTOM):.1f}"  # noqa: E731
    parts = [Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(WIDTH, HEIGHT, told)]
    for value, text in y.ticks:
        at = down(value)
        parts.append(Markup('<line class="grid" x1="{}" x2="{}" y1="{}" y2="{}"/>').format(LEFT, WIDTH - RIGHT, at, at))
        parts.append(Markup('<text x="{}" y="{}" text-anchor="end" dy="4">{}</text>').format(LEFT - 6, at, text))
    for number, (value, text) in enumerate(x.ticks):
        anchor = "start" if number == 0 else "end" if number == len(x.ticks) - 1 else "middle"
        parts.append(Markup('<text x="{}" y="{}" text-anchor="{}">{}</text>').format(across(value), HEIGHT - 6, anchor, text))
    for name, points in lines:
        if points:
            path = " ".join(f"{across(a)},{down(b)}" for a, b in points)
            parts.append(Markup('<polyline class="{}" points="{}"/>').format(name, path))
    return escape(Markup("").join([*parts, Markup("</svg>")]))
