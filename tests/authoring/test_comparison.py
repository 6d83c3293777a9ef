"""A comparison as text and as Markdown: every change once, in its section; questions of which the verdict, price or error moves."""

from __future__ import annotations

from pathlib import Path

from dpproxy.authoring.cases import of_cases, read_cases
from dpproxy.authoring.commands import changes_as_markdown, changes_as_text, shifts
from dpproxy.authoring.exposure import Change, Direction
from dpproxy.policy.load import load_text
from dpproxy.review.verdicts import Bench
from tests.worlds.authored_town import town_text

ASKED = of_cases(
    read_cases(
        """
tests:
  - { name: all, role: analyst, query: SELECT count(*) FROM people, accept: {} }
  - { name: "mail | box", role: analyst, query: SELECT count(email) FROM people, accept: {} }
  - { name: shops, role: analyst, query: SELECT count(*) FROM shops, accept: {} }
""",
        Path("town.test.yaml"),
    ).cases
)


def edited(bench: Bench, *edits: tuple[str, str]) -> Bench:
    text = town_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return Bench(load_text(text, "town.yaml", Path("/town")), bench.catalog, "duckdb")


def test_questions_that_move(bench: Bench) -> None:
    new = edited(bench, ("epsilon: 0.5, max", "epsilon: 1, max"), ("email: hidden", "email: {}"))
    first, second = shifts(ASKED, bench, new)
    assert (first.asked.name, first.opens) == ("all", True)
    assert (second.asked.name, second.opens) == ("mail | box", True)
    text = changes_as_text((), (first, second))
    assert "analyst: all: costs epsilon 1, did cost epsilon 0.5; the error of count(*) is up to" in text
    assert "answered for epsilon 1, was refused (" in text


def test_a_cheaper_answer_opens_nothing(bench: Bench) -> None:
    (moved,) = shifts(ASKED, edited(bench, ("epsilon: 0.5, max", "epsilon: 1, max")), bench)
    assert not moved.opens


def test_markdown_is_a_table(bench: Bench) -> None:
    found = (Change(Direction.MORE, "tables.a", "x | y"), Change(Direction.NOISE, "tables.b", "z"))
    moved = shifts(ASKED, bench, edited(bench, ("email: hidden", "email: {}")))
    lines = changes_as_markdown("old.yaml", "new.yaml", found, moved).splitlines()
    assert lines[0] == "## Policy: old.yaml to new.yaml"
    assert "| `tables.a` | x \\| y |" in lines
    assert any(line.startswith("| analyst | mail \\| box | answered for epsilon 0.5, was refused") for line in lines)
    assert lines.index("### More exposed") < lines.index("### Other noise, the same protection") < lines.index("### Questions")


def test_nothing_to_say() -> None:
    assert changes_as_text((), ()) == "the policies say the same\n"
    assert "say the same" in changes_as_markdown("a", "b", (), ())
