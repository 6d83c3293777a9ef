"""Accuracy, honesty and planning at small scale beside stored figures: what continuous integration prints of each change.

Knows: the sample shop, a proxy over it as a client, the planner. Must not know: the corpus and other material that is not in this
repository. Data are the same on every machine and noise is not, so each figure has a tolerance: several times what it moves by
chance. Planning is counted in function calls, which are as many on a slow machine. `STORED` has the figures: a change that
means to move one writes it there, and says why. The report fails no build: a figure that moved is a question to whoever made the
change.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import bench_plans
import duckdb
import psycopg

from dpproxy.serve.launch import launched

ANSWERS: Final = 7
BUDGETS: Final = {
    "  epsilon: 100\n  delta: 1e-5\n": "  epsilon: 1000000\n  delta: 1e-2\n",
    "{ epsilon: 10, delta: 1e-6, every: month }": "{ epsilon: 1000000, delta: 1e-3, every: month }",
}
"""What stands in the shop's policy, and what it takes to ask this often."""

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Question:
    """Is one statement of the report. `value`: its aggregate; `key`: what its groups are by."""

    name: str
    key: str
    value: str
    source: str

    def private(self) -> str:
        """Return the SQL for the proxy: key, value, ends of its interval."""
        v = self.value
        return f"SELECT {self.key}, {v}, dpproxy.low({v}), dpproxy.high({v}) FROM {self.source} GROUP BY 1"

    def exact(self) -> str:
        return f"SELECT {self.key}, {self.value} FROM {self.source} GROUP BY 1"


QUESTIONS: Final = (
    Question("people by region", "region", "count(*)", "customers"),
    Question("average income by region", "region", "avg(income)", "customers"),
    Question("deviation of incomes by sex", "sex", "stddev(income)", "customers"),
    Question("median income by region", "region", "percentile_cont(0.5) WITHIN GROUP (ORDER BY income)", "customers"),
    Question("orders by category", "category", "count(*)", "orders"),
    Question("revenue by month", "date_trunc('month', ts)", "sum(amount)", "orders"),
    Question("customers by category", "category", "count(DISTINCT customer_id)", "orders"),
    Question("revenue by region", "c.region", "sum(o.amount)", "orders o JOIN customers c USING (customer_id)"),
    Question("quantity by category", "category", "sum(quantity)", "order_items JOIN orders USING (order_id)"),
)
PLANNED: Final = "planning, calls: "


@dataclass(frozen=True)
class Stored:
    """Is a figure and how far one run may be from it: by a factor, or where `by` is absolute by an amount. `high`: more is
    worse, as of errors."""

    figure: float
    tolerance: float
    absolute: bool = False
    high: bool = True

    def verdict(self, now: float) -> str:
        """Return `as stored`, `better` or `worse`."""
        if self.absolute:
            above, below = now > self.figure + self.tolerance, now < self.figure - self.tolerance
        else:
            above, below = now > self.figure * self.tolerance, now * self.tolerance < self.figure
        if not above and not below:
            return "as stored"
        return "worse" if above == self.high else "better"


STORED: Final[Mapping[str, Stored]] = {
    "median error, %: people by region": Stored(0.0608, 3.0),
    "median error, %: average income by region": Stored(1.24, 3.0),
    "median error, %: deviation of incomes by sex": Stored(16.3, 3.0),
    "median error, %: median income by region": Stored(0.124, 3.0),
    "median error, %: orders by category": Stored(8.39, 3.0),
    "median error, %: revenue by month": Stored(21.6, 3.0),
    "median error, %: customers by category": Stored(0.107, 3.0),
    "median error, %: revenue by region": Stored(4.69, 3.0),
    "median error, %: quantity by category": Stored(12.1, 3.0),
    "median distance of the low end, %: people by region": Stored(0.369, 1.4),
    "median distance of the low end, %: average income by region": Stored(5.92, 1.4),
    "median distance of the low end, %: deviation of incomes by sex": Stored(107.0, 1.4),
    "median distance of the low end, %: median income by region": Stored(6.22, 1.4),
    "median distance of the low end, %: orders by category": Stored(18.4, 1.4),
    "median distance of the low end, %: revenue by month": Stored(152.0, 1.4),
    "median distance of the low end, %: customers by category": Stored(0.67, 1.4),
    "median distance of the low end, %: revenue by region": Stored(26.0, 1.4),
    "median distance of the low end, %: quantity by category": Stored(27.0, 1.4),
    "intervals that hold, %": Stored(99.5, 2.0, absolute=True, high=False),
    "cells with a low end, %": Stored(100.0, 0.5, absolute=True, high=False),
    "cells with both ends, %": Stored(33.3, 0.5, absolute=True, high=False),
    "planning, calls: people by region": Stored(16509.0, 1.05),
    "planning, calls: average income by region": Stored(26111.0, 1.05),
    "planning, calls: deviation of incomes by sex": Stored(35940.0, 1.05),
    "planning, calls: median income by region": Stored(26454.0, 1.05),
    "planning, calls: orders by category": Stored(21134.0, 1.05),
    "planning, calls: revenue by month": Stored(27365.0, 1.05),
    "planning, calls: customers by category": Stored(18915.0, 1.05),
    "planning, calls: revenue by region": Stored(31523.0, 1.05),
    "planning, calls: quantity by category": Stored(24746.0, 1.05),
    "planning, calls: three tables": Stored(54803.0, 1.05),
}
"""By name. Errors of a run differ up to twofold by chance; what is stated of them hardly, and calls not at all."""


# --- accuracy and honesty


@dataclass(frozen=True)
class Cell:
    """Is one number that was answered, beside the exact one. An end that is None is open."""

    value: float
    low: float | None
    high: float | None
    true: float

    @property
    def error(self) -> float:
        """The relative error; 1 where the exact number is 0."""
        return abs(self.value - self.true) / abs(self.true) if self.true else float(self.value != 0)

    @property
    def below(self) -> float | None:
        """How far below the answer its low end is, relative to the exact number: what noise takes, as it is stated."""
        return None if self.low is None or not self.true else (self.value - self.low) / abs(self.true)

    @property
    def held(self) -> bool:
        slack = 1e-9 * abs(self.true)
        return (self.low is None or self.low <= self.true + slack) and (self.high is None or self.true <= self.high + slack)


def cells(rows: Sequence[Row], exact: Sequence[Row]) -> Iterator[Cell]:
    """Yield the numbers of an answer; groups that are not shown, and NULL, are none."""
    true = {_key(key): value for key, value in exact}
    for key, value, low, high in rows:
        if value is not None and (known := true.get(_key(key))) is not None:
            yield Cell(float(value), *(None if end is None else float(end) for end in (low, high)), float(known))


def _key(value: Any) -> Any:
    """Engines differ in whether an instant has a time zone."""
    return value.replace(tzinfo=None).isoformat()[:10] if hasattr(value, "isoformat") and hasattr(value, "tzinfo") else value


def answered(policy: Path, state: Path, answers: int) -> dict[str, list[Cell]]:
    """Return the cells of each question, asked so many times."""
    with duckdb.connect(str(policy.with_name("shop.duckdb")), read_only=True) as data:
        truths = {question.name: data.execute(question.exact()).fetchall() for question in QUESTIONS}
    found: dict[str, list[Cell]] = {question.name: [] for question in QUESTIONS}
    with launched([policy], state) as proxy:
        where = f"host={proxy.host} port={proxy.port} user=ada password=ada dbname=shop"
        with psycopg.connect(where, autocommit=True) as session:
            session.execute("SET dpproxy.notices = off")
            session.execute("SET dpproxy.reuse = off")
            for question in QUESTIONS:
                for _ in range(answers):
                    rows = session.execute(question.private().encode()).fetchall()
                    found[question.name] += cells(rows, truths[question.name])
    return found


def figures(found: Mapping[str, Sequence[Cell]]) -> dict[str, float]:
    """Return the figures of accuracy and honesty by name: errors and shares in percent."""
    every = [cell for each in found.values() for cell in each]
    ended = [cell for cell in every if cell.low is not None or cell.high is not None]
    errors = {f"median error, %: {name}": 100 * statistics.median(c.error for c in each) for name, each in found.items()}
    below = {name: [100 * c.below for c in each if c.below is not None] for name, each in found.items()}
    return {
        **errors,
        **{f"median distance of the low end, %: {name}": statistics.median(each) for name, each in below.items() if each},
        "intervals that hold, %": 100 * sum(cell.held for cell in ended) / len(ended),
        "cells with a low end, %": 100 * sum(cell.low is not None for cell in every) / len(every),
        "cells with both ends, %": 100 * sum(cell.low is not None and cell.high is not None for cell in every) / len(every),
    }


# --- planning


def planning(policy: Path) -> dict[str, float]:
    """Return how many functions are called to plan each question, and a join of three tables, for the first time."""
    planner, role = bench_plans.planner_of(policy)
    texts = {question.name: question.private() for question in QUESTIONS} | {
        "three tables": bench_plans.JOINED.format(constant=9)
    }
    for text in texts.values():  # what is remembered of the policy's tables, whoever asks
        planner.plan(planner.split(text)[0], role, {}, ())
    found = {}
    for name, text in texts.items():
        planner.forget()
        found[PLANNED + name] = float(calls(lambda text=text: planner.plan(planner.split(text)[0], role, {}, ())))  # type: ignore[misc]
    return found


def calls(work: Any) -> int:
    """Return how many functions are called meanwhile, C's included."""
    number = 0

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal number
        number += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return number


# --- the table


def measured(policy: Path, state: Path, answers: int = ANSWERS) -> dict[str, float]:
    """Return all figures over the shop whose policy and data are there. Writes a policy of large budgets beside it."""
    text = policy.read_text()
    for small, large in BUDGETS.items():
        assert small in text, f"the shop's policy has no {small!r}"
        text = text.replace(small, large, 1)
    rich = policy.with_name("report.yaml")
    rich.write_text(text)
    return {**figures(answered(rich, state, answers)), **planning(rich)}


def table(now: Mapping[str, float], stored: Mapping[str, Stored] = STORED) -> Iterator[str]:
    """Yield the report's lines, what moved last."""
    yield "figure\tnow\tstored\tverdict"
    moved = []
    for name, figure in now.items():
        kept = stored.get(name)
        verdict = "not stored" if kept is None else kept.verdict(figure)
        yield f"{name}\t{figure:.4g}\t{'-' if kept is None else f'{kept.figure:.4g}'}\t{verdict}"
        moved += [] if verdict == "as stored" else [name]
    moved += [f"{name} (stored, and not measured)" for name in stored.keys() - now.keys()]
    yield f"{len(moved)} of {len(now)} figures moved" + "".join(f"; {name}" for name in moved)


def report(policy: Path, state: Path) -> None:
    """Print the table."""
    print("report: accuracy at the policy's epsilon, honesty and planning over the sample shop, beside stored figures")
    for line in table(measured(policy, state)):
        print(line, flush=True)
