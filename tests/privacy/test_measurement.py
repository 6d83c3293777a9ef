"""What a measurement says of its own columns: names, reach, and where each released column stands."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from dpproxy.privacy.loss import Loss
from dpproxy.privacy.measurement import Basis, Measurement, Selection, Top

ONE = Basis("n", 1, Fraction(1), "laplace", Fraction(10), Loss(0))
STEPPED = replace(ONE, norm=1, steps=3)


def selection(*fractions: Fraction) -> Selection:
    return Selection("q", "quantile" if fractions else "mode", 1, 10, fractions, 1, 10, Loss(0))


def measurement(*bases: Basis, selections: tuple[Selection, ...] = (), top: Top | None = None) -> Measurement:
    return Measurement((), (), bases, 4, True, None, Loss(0), None, selections, top=top)


def test_names_of_columns() -> None:
    assert [basis.columns(i) for i, basis in enumerate([ONE, STEPPED])] == [["b0"], ["b1s0", "b1s1", "b1s2"]]


def test_a_norm_is_of_all_groups_together() -> None:
    assert [ONE.reach(7), replace(ONE, norm=2).reach(7)] == [7, 1]


@pytest.mark.parametrize(("k", "wanted"), [(2, 2), (4, 4), (9, 4)])
def test_groups_that_are_chosen_bound_what_a_unit_reaches(k: int, wanted: int) -> None:
    top = Top(k, 0, 1, None, 1, 0, Loss(0))
    assert measurement(ONE, top=top).reach == wanted
    assert measurement(ONE).reach == 4


def released(made: Measurement) -> list[str]:
    """The order of released columns, written down a second time: bases, what is selected, then three more a basis of steps."""
    names = [f"b{i}" for i in range(len(made.bases))]
    names += [f"s{i}f{j}" for i, s in enumerate(made.selections) for j in range(len(s.fractions) or 1)]
    return names + [f"b{i} {what}" for i, b in enumerate(made.bases) if b.steps > 1 for what in ("raw", "last", "later")]


@pytest.mark.parametrize("selections", [(), (selection(),), (selection(Fraction(0), Fraction(1, 2)), selection())])
def test_where_the_columns_of_steps_stand(selections: tuple[Selection, ...]) -> None:
    made = measurement(STEPPED, ONE, STEPPED, selections=selections)
    assert made.stepped == (0, 2)
    order = released(made)
    for i in (0, 2):
        at = made.step_column(i)
        assert at is not None
        assert order[at : at + 3] == [f"b{i} raw", f"b{i} last", f"b{i} later"]
    assert made.step_column(1) is None
