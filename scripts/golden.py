"""What is planned for each statement of fixtures, tools and corpus, on each engine: `tests/golden`.

    scripts/golden                         writes the digests anew, and says how many lines moved
    scripts/golden --against HEAD~3        shows as SQL what differs between that revision and this checkout
    scripts/golden --against ../other      the same, of another checkout
    scripts/golden --against HEAD accept_top duckdb     of statements and engines whose names hold these words

Each checkout plans its own statements with its own planner, in a process of its own; those that both have are compared. A
revision from before there were digests is read by this one's scripts, as long as it has the fixtures' harness.

Knows: `tests.golden`, git. Must not know: what a form holds. Digests are written with the corpus at hand, or not at all.
"""

from __future__ import annotations

import argparse
import difflib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "tests" / "plan")]

from tests.golden import statements  # noqa: E402
from tests.golden.forms import Form  # noqa: E402

OURS = ("scripts/golden.py", "tests/golden", "tests/corpus/corpus_worlds.py")
"""What an older revision lacks."""
CLAUSES = re.compile(r" (?=(?:SELECT|FROM|WHERE|GROUP BY|ORDER BY|HAVING|UNION ALL|LEFT JOIN|JOIN|CASE|WITH) )|(?<=,) (?=\()")
Forms = dict[str, Form]


def corpus_folder() -> Path | None:
    """Return where the corpus is: in a copy of a revision it is where it is for this checkout."""
    folder = Path(os.environ.get("DPPROXY_SHARED", ROOT.parent / "shared")) / "corpus"
    return folder if folder.is_dir() else None


def all_statements() -> list[statements.Pinned]:
    """Return them all, or those of the repository where there is no corpus."""
    corpus = corpus_folder()
    return [*statements.of_the_repository(), *(statements.of_the_corpus(corpus) if corpus is not None else ())]


def forms(words: Sequence[str], engine: statements.Dialect) -> Forms:
    """Return what is planned for the statements that the words choose, by key and engine."""
    chosen = [p for p in all_statements() if all(word in f"{p.key} {engine} {p.shown}" for word in words)]
    return {f"{p.key} {engine}": p.form(engine) for p in chosen}


def lines(engine: statements.Dialect) -> list[str]:
    """Return the lines of an engine's file."""
    return [p.line(engine) for p in all_statements()]


def write() -> None:
    """Write the files. Raises SystemExit without the corpus, whose lines would go."""
    if corpus_folder() is None:
        raise SystemExit("the digests of the corpus are a part of the files: set DPPROXY_SHARED to the folder that holds it")
    with ProcessPoolExecutor() as pool:
        for engine, made in zip(statements.ENGINES, pool.map(lines, statements.ENGINES), strict=True):
            path = statements.HERE / f"{engine}.txt"
            before = path.read_text().splitlines() if path.exists() else []
            path.write_text("".join(f"{line}\n" for line in made))
            moved = Counter(made) - Counter(before)
            print(f"{path.relative_to(ROOT)}: {len(made)} lines, {moved.total()} of them new")


def dump(file: Path, words: Sequence[str]) -> None:
    """Write the forms for another process to compare."""
    with ProcessPoolExecutor() as pool:
        found = pool.map(partial(forms, words), statements.ENGINES)
        file.write_text(json.dumps({key: form for made in found for key, form in made.items()}))


def of_checkout(place: Path, words: Sequence[str], folder: Path) -> Forms:
    """Return what another checkout plans, with the scripts it has, or with ours."""
    file = folder / "forms.json"
    corpus = corpus_folder()
    environment = {**os.environ, **({"DPPROXY_SHARED": str(corpus.parent)} if corpus is not None else {})}
    command = [sys.executable, place / "scripts" / "golden.py", "--dump", file, *words]
    subprocess.run(command, cwd=place, env=environment, check=True)
    made: Forms = json.loads(file.read_text())
    return made


def of_revision(revision: str, words: Sequence[str], folder: Path) -> Forms:
    """Return what a revision plans, in a copy of its files."""
    place = folder / "checkout"
    place.mkdir()
    packed = subprocess.run(["git", "archive", revision], cwd=ROOT, check=True, capture_output=True).stdout
    subprocess.run(["tar", "-x", "-C", place], input=packed, check=True)
    if not (place / "scripts" / "golden.py").exists():
        for name in OURS:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, place / name)
    return of_checkout(place, words, folder)


def shown(old: Forms, new: Forms) -> Iterator[str]:
    """Yield what differs, clause by clause, below the name of its statement."""
    for key in sorted(old.keys() & new.keys()):
        names = [name for name in {**old[key], **new[key]} if old[key].get(name) != new[key].get(name)]
        for name in names:
            before, after = (CLAUSES.sub("\n", form.get(name, "")).splitlines() for form in (old[key], new[key]))
            yield f"== {key}: {name}"
            yield from list(difflib.unified_diff(before, after, lineterm="", n=2))[2:]
    for title, keys in (("only there", old.keys() - new.keys()), ("only here", new.keys() - old.keys())):
        yield from (f"== {key}: {title}" for key in sorted(keys))


def main() -> None:
    """Write, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", metavar="REVISION_OR_FOLDER")
    parser.add_argument("--dump", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("words", nargs="*")
    given = parser.parse_args()
    if given.dump is not None:
        dump(given.dump, given.words)
    elif given.against is None:
        write()
    else:
        with tempfile.TemporaryDirectory() as folder:
            other = of_checkout if Path(given.against, "dpproxy").is_dir() else of_revision
            old = other(Path(given.against).resolve() if other is of_checkout else given.against, given.words, Path(folder))
            new = of_checkout(ROOT, given.words, Path(folder))
        print(*shown(old, new), sep="\n")


if __name__ == "__main__":
    main()
