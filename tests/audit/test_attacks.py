"""Attacks on answers that are at hand, and what each says; those that need two proxies are tried with the whole command."""

from __future__ import annotations

import numpy as np

from dpproxy.audit import attacks
from dpproxy.audit.bench import AuditBench, Statement
from dpproxy.audit.black_box import Figure
from dpproxy.audit.events import Outcome
from dpproxy.audit.planted import COUNT
from dpproxy.audit.self_test import ROLE
from dpproxy.audit.wire import Answers


def _given(scale: float) -> tuple[list[Figure], dict[Statement, Answers]]:
    random, given, figures = np.random.default_rng(6), {}, []
    for shape in ("count", "sum"):
        asked = Statement(ROLE, COUNT, shape)
        one, other = (
            tuple(Outcome("ok", {"n": center + float(x)}) for x in random.laplace(scale=scale, size=1200)) for center in (5, 4)
        )
        given[asked] = Answers(one, other)
        figures.append(Figure(asked, 0.5, 1e-6, 0.0, "", 1200, 1.0))
    return figures, given


def test_averaging_and_tracing_within_and_beyond() -> None:
    for scale, refuted in ((2.0, False), (0.1, True)):
        figures, given = _given(scale)
        for attack in (attacks.averaging(figures, given), attacks.tracing(figures, given)):
            assert attack is not None
            assert attack.refuted is refuted
    traced = attacks.tracing(figures, given)
    assert traced is not None
    assert [p.epsilon for p in traced.points] == [0.5, 1.0]


def test_a_key_that_gives_somebody_away() -> None:
    asked = Statement(ROLE, COUNT, "undeclared key")
    there, gone = [Outcome("ok", {("rare",): 1.0})] * 40, [Outcome("ok", {})] * 40
    figures = [Figure(asked, 0.5, 1e-6, 0.0, "", 40, 1.0)]
    attack = attacks.key_probing(figures, {asked: Answers(tuple(there), tuple(gone))})
    assert attack is not None
    assert attack.refuted


def test_races_are_run(small: AuditBench) -> None:
    attack = attacks.races(small, _given(1.0)[0])
    assert attack is not None
    assert not attack.refuted
    assert "5 answers in turn, 5 at once" in attack.said
