"""The statements whose plans are pinned: the planner's fixtures, what tools send, and a corpus outside the repository.

Each has a key that stays while the statement does: the file or data set it is from, and a digest of what is asked, or its number in
the corpus. The digests stand in a file for each engine, a line a statement, in the order of keys.

Knows: where statements are. Must not know: what is pinned of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import plan_harness
from fixture_cases import CASES, TOOLS, Case

from dpproxy.plan.model import Plan
from dpproxy.policy.catalog import Catalog
from dpproxy.sql.template import Dialect
from tests.corpus.corpus_worlds import POLICIES, world
from tests.golden.forms import Form, digest, digests, form

ENGINES: tuple[Dialect, ...] = ("duckdb", "postgres", "spark")
HERE = Path(__file__).parent
CORPUS = "corpus/"
SHOWN = 60
"""Characters of a statement beside its digests."""


@dataclass(frozen=True)
class Pinned:
    """A statement. `shown` is what a reader knows it by; nothing of the corpus, which is not ours."""

    key: str
    shown: str
    plan: Callable[[Dialect], Sequence[Plan]]

    def form(self, engine: Dialect) -> Form:
        return form(lambda: self.plan(engine))

    def line(self, engine: Dialect) -> str:
        return f"{self.key} {digests(self.form(engine))} {self.shown}".rstrip()


@cache
def catalog() -> Catalog:
    with tempfile.TemporaryDirectory() as folder:
        return plan_harness.catalog(Path(folder))


def of_the_repository() -> list[Pinned]:
    """Fixtures and what tools send, each once."""
    found = {}
    for room, cases in (("fixtures", CASES), ("tools", TOOLS)):
        for case in cases:
            asked = repr((case.policy, case.sql, case.role, case.types, sorted(case.settings.items())))
            key = f"{room}/{case.file}/{digest(asked)[:6]}"
            found[key] = Pinned(key, " ".join(case.sql.split())[:SHOWN], partial(_of_a_fixture, case))
    return [found[key] for key in sorted(found)]


def _of_a_fixture(case: Case, engine: Dialect) -> Sequence[Plan]:
    before, plan_harness.engine = plan_harness.engine, engine
    try:
        return [case.plan(catalog())]
    except plan_harness.Unproved as error:
        raise error.__cause__ or error from None
    finally:
        plan_harness.engine = before


def of_the_corpus(folder: Path, part: slice = slice(None)) -> list[Pinned]:
    """Its statements by number, or some of them, of each data set."""
    found = []
    for name in sorted(p.stem for p in POLICIES.glob("*.yaml")):
        here = world(name, folder, POLICIES / f"{name}.yaml", runs_on="duckdb")
        found += [Pinned(CORPUS + e["id"], "", partial(here.plans, entry=e)) for e in here.entries[part]]
    return sorted(found, key=lambda pinned: pinned.key)


def kept(engine: Dialect, folder: Path = HERE) -> Mapping[str, str]:
    """The lines of an engine's file, by key."""
    lines = (folder / f"{engine}.txt").read_text().splitlines()
    return {line.partition(" ")[0]: line for line in lines}


def differences(pinned: Sequence[tuple[Pinned, Dialect]], folder: Path = HERE) -> Iterator[str]:
    """Keys of statements whose plan is another one than what is kept of it, each with its engine and the parts that differ."""
    files = {engine: kept(engine, folder) for engine in ENGINES}
    for statement, engine in pinned:
        old, new = files[engine].get(statement.key, ""), statement.line(engine)
        if old != new:
            yield f"{statement.key} on {engine}: {parts(old, new)}"


def parts(old: str, new: str) -> str:
    """Which of two lines' digests differ."""
    if not old:
        return "no line"
    before, after = ([word for word in line.split() if "=" in word] for line in (old, new))
    return ", ".join(word.partition("=")[0] for word in after if word not in before) or "no other digest, but another text"
