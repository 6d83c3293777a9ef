"""What a simulation tells: every question once, the budget that ends, the bounds that would serve better, and a picture of them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from xml.etree import ElementTree

from dpproxy.authoring.simulation import Line, Simulation, Spread, picture, row_errors, table
from dpproxy.authoring.spending import Spent
from dpproxy.authoring.trials import Trial
from dpproxy.review.verdicts import Answered, Refused

ANSWERED = Answered(Decimal("0.5"), Decimal(0), ("n",), cuts=("at most 5 rows per person",))
FOUND = Simulation(
    (
        Line("analyst", "visits | days", ANSWERED, Trial(0.01, 0.4, 0.41, ((0.5, 0.6), (2.0, 0.1)), 3)),
        Line("analyst", "people", ANSWERED, Trial(0.02, 0.0, 0.02, ((0.5, 0.02), (2.0, 0.03)))),
        Line("intern", "<mail>", Refused("42703", "no such column"), None),
        Line("intern", "lost", ANSWERED, Trial(failure="the engine failed")),
    ),
    {"": Spent(10, "year", (1.0, 2.0), None, 0), "analyst": Spent(5, "month", (1.0, 5.0), 2, 7)},
    {1.0: 2, 0.5: None},
    {"month": 2, "week": None},
)


def test_the_table() -> None:
    text = table(FOUND)
    assert text.startswith("3 of 4 questions are answered.")
    assert "| role analyst | 2.5 | 5 | month | until day 2; 7 questions a year are refused |" in text
    assert "| analyst | visits \\| days | 0.5 | 41 % | 1 % | 40 % | 3 |" in text
    assert "| intern | <mail> | refused: no such column |" in text
    assert "| intern | lost | 0.5 | the engine failed |" in text
    assert "Bounds hurt analyst's `visits \\| days` more than noise: at most 5 rows per person." in text
    assert "| times 0.5 | all year |" in text
    assert "| month | until day 2 |" in text
    assert "| week | all year |" in text


def test_errors_by_factor() -> None:
    assert row_errors(FOUND) == {
        1.0: Spread(0.02, 0.215, 0.41, 2),
        0.5: Spread(0.02, 0.31, 0.6, 2),
        2.0: Spread(0.03, 0.065, 0.1, 2),
    }


def test_advice_rests_on_several_questions() -> None:
    """Of two no median says anything; of six it does, and the spread says how well."""
    assert "Of fewer than 5 questions nothing can be said of bounds." in table(FOUND)
    many = replace(FOUND, lines=tuple(replace(line, name=f"{line.name} {i}") for i in range(3) for line in FOUND.lines))
    assert "Bounds on rows times 2 serve these questions better, as far as so few questions can tell." in table(many)
    assert "| as they are | 22 % | 2 % and 41 % | 6 |" in table(many)
    sure = tuple(Line("a", f"q{i}", ANSWERED, Trial(0.1, 0.4, 0.4 + i / 100, ((2.0, 0.1),))) for i in range(5))
    assert "Bounds on rows times 2 serve these questions better." in table(replace(FOUND, lines=sure))


def test_the_picture_is_svg_with_a_line_for_each_budget_and_a_bar_for_each_question() -> None:
    root = ElementTree.fromstring(picture(FOUND))
    name = "{http://www.w3.org/2000/svg}"
    assert len(root.findall(f"{name}polyline")) == 2
    assert len(root.findall(f"{name}rect")) == 1 + 2
    assert any("visits" in (text.text or "") for text in root.findall(f"{name}text"))
