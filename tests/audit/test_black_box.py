"""Which statements are asked, and what a figure says of their answers."""

from __future__ import annotations

import math

import numpy as np

from dpproxy.audit.bench import Statement
from dpproxy.audit.black_box import FEWEST, chosen, figure
from dpproxy.audit.events import Outcome
from dpproxy.audit.replay import Replayed
from dpproxy.audit.wire import Answers


def _replayed(shape: str, closest: float = 1.0, refused: str = "", sql: str = "") -> Replayed:
    return Replayed(Statement("r", sql or shape, shape), 1.0, 0.0, refused, moved={"x": closest})


def test_one_statement_of_each_shape() -> None:
    asked = [
        _replayed("count", 0.2, sql="far"),
        _replayed("count", 0.9, sql="near"),
        _replayed("odd"),
        _replayed("sum", refused="no"),
    ]
    asked += [_replayed(shape) for shape in ("having", "percentile", "mode")]
    assert [r.statement.sql for r in chosen(asked, 1)] == ["near", "percentile", "having"]
    assert FEWEST == 3
    assert len(chosen(asked, 1000)) == 5


def test_a_figure_beside_its_charge() -> None:
    random = np.random.default_rng(2)

    def answers(center: float, scale: float, times: int) -> tuple[Outcome, ...]:
        return tuple(Outcome("ok", {"n": float(round(center + x))}) for x in random.laplace(scale=scale, size=times))

    fair = figure(_replayed("count"), Answers(answers(5, 1, 2000), answers(4, 1, 2000)), 1e-3)
    assert not fair.refuted
    assert 0.4 < fair.shown < 1 < fair.detectable < 2
    sharp = figure(_replayed("count"), Answers(answers(5, 0.4, 2000), answers(4, 0.4, 2000)), 1e-3)
    assert sharp.refuted
    few = figure(_replayed("count"), Answers(answers(5, 1, 6), answers(4, 1, 6)), 1e-3)
    assert math.isinf(few.detectable)
