"""Each plan is the one that is kept: its generated SQL, outer query, numbers and names, on each engine; each refusal says the same.

A change of any of them is seen here first, by the keys of its statements. `scripts/golden --against HEAD` shows it as SQL; where it is
meant, `scripts/golden` writes the files, and the commit says which lines moved, and why. The suite plans each statement of the
repository on one engine, and of the corpus a part; long mode plans all of them on each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import plan_harness
import pytest

from dpproxy.errors import Refusal, UnprovenPlan
from dpproxy.plan.measure import compiler
from dpproxy.sql.template import Dialect, Found, Param, Template
from tests.golden import statements
from tests.golden.forms import digest, form, plain
from tests.golden.statements import ENGINES, Pinned, differences, kept, of_the_corpus, of_the_repository

REMEDY = "scripts/golden --against HEAD shows them as SQL; scripts/golden writes the digests anew"
SQL = "SELECT category, count(*), sum(amount) FROM orders GROUP BY category"


def on_one(pinned: Sequence[Pinned]) -> list[tuple[Pinned, Dialect]]:
    """Each on an engine, the same in each run."""
    return [(p, ENGINES[int(digest(p.key), 16) % len(ENGINES)]) for p in pinned]


def on_each(pinned: Sequence[Pinned]) -> list[tuple[Pinned, Dialect]]:
    return [(p, engine) for engine in ENGINES for p in pinned]


def test_statements_of_the_repository() -> None:
    assert list(differences(on_one(of_the_repository()))) == [], REMEDY


def test_statements_of_the_corpus(shared: Path) -> None:
    assert list(differences(on_one(of_the_corpus(shared / "corpus", slice(None, None, 4))))) == [], REMEDY


@pytest.mark.long
def test_all_statements_on_each_engine() -> None:
    assert list(differences(on_each(of_the_repository()))) == [], REMEDY


@pytest.mark.long
def test_the_whole_corpus_on_each_engine(shared: Path) -> None:
    assert list(differences(on_each(of_the_corpus(shared / "corpus")))) == [], REMEDY


@pytest.mark.parametrize("engine", ENGINES)
def test_no_line_is_of_a_statement_that_is_gone(engine: Dialect) -> None:
    own = {key for key in kept(engine) if not key.startswith(statements.CORPUS)}
    assert own - {p.key for p in of_the_repository()} == set(), REMEDY
    assert len(kept(engine)) - len(own) > 600, "of the corpus"


def _pinned(sql: str = SQL) -> Pinned:
    return Pinned("a/statement", sql, lambda _: [plan_harness.plan(sql, statements.catalog())])


def test_what_moves_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan whose bound of groups is one less says other SQL, other numbers, and is stored under other names."""
    for engine in ENGINES:
        (tmp_path / f"{engine}.txt").write_text(f"{_pinned().line('duckdb')}\n")
    assert list(differences([(_pinned(), "duckdb")], tmp_path)) == []
    assert list(differences([(replace(_pinned(), shown="SELECT 1"), "duckdb")], tmp_path)) == [
        "a/statement on duckdb: no other digest, but another text"
    ]
    assert list(differences([(replace(_pinned(), key="another"), "duckdb")], tmp_path)) == ["another on duckdb: no line"]
    reach = compiler._reach
    monkeypatch.setattr(compiler, "_reach", lambda *given: (reach(*given)[0] - 1, *reach(*given)[1:]))
    plan_harness.believe(monkeypatch)
    assert list(differences([(_pinned(), "duckdb")], tmp_path)) == ["a/statement on duckdb: sql, numbers, names"]


def test_each_part_holds_what_it_says() -> None:
    made = plan_harness.plan(SQL, statements.catalog())
    (measurement,) = made.measurements
    plainly = form(lambda: [made])
    (basis, *others), query = measurement.bases, measurement.queries[0]
    changes = {
        "sql": {"queries": (replace(query, parts=(*query.parts, " ")),)},
        "numbers": {"bases": (replace(basis, scale=basis.scale + 1), *others)},
        "names": {"canonical": None},
    }
    for part, change in changes.items():
        other = form(lambda change=change: [replace(made, measurements=(replace(measurement, **change),))])
        assert [name for name in plainly if plainly[name] != other[name]] == [part]
    other = form(lambda: [replace(made, outer=f"{made.outer} ")])
    assert [name for name in plainly if plainly[name] != other[name]] == ["outer"]
    assert form(lambda: [replace(made, explain=("said otherwise",), cuts=("so, too",))]) == plainly


def test_the_first_round_is_pinned() -> None:
    given = replace(plan_harness.policy("whole"), mechanism="gaussian")
    made = plan_harness.plan("SELECT category, count(*) FROM orders GROUP BY category", statements.catalog(), given)
    threshold = made.measurements[0].threshold
    assert threshold is not None
    assert threshold.first is not None
    assert plain(threshold.first.query) in form(lambda: [made])["sql"]


def test_refusals_are_pinned() -> None:
    def refused(problem: Exception) -> dict[str, str]:
        def raising() -> list[object]:
            raise problem

        return form(raising)  # type: ignore[arg-type]

    assert refused(Refusal("42501", "no", 3, hint="write less")) == {"refused:42501": "(no, 3, None, write less)"}
    assert [*refused(UnprovenPlan("XX000", "not proved"))] == ["unproven"]


def test_texts_are_the_same_in_every_process() -> None:
    assert plain(Template("duckdb", ("SELECT ", Param(0, "int4"), Found()))) == "SELECT $1:int4$found"
    assert (
        plain((1, None, True, Fraction(1, 3), 1 / 3, ("a", Param(1, "text"))))
        == "(1, None, True, 1/3, 0.333333333, (a, $2:text))"
    )
    assert plain(frozenset({"b", "a", "c"})) == "{a, b, c}"
    with pytest.raises(TypeError, match="object has no text"):
        plain((1, object()))
