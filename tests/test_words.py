"""Words that a stranger reads once: docstrings open with what a thing is or does, sentences of the first pages are short.

Knows: the text of docstrings and pages. Must not know: whether what is said is true. A class is named by a noun, a function by a
verb or a noun: "Is a copy", "Says how far", "Holds the parts" say the same with a word more. A sentence of over 40 words is read
twice; lists, tables and code are no sentences.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FILLERS = re.compile(r"(Is|Are|Says|Holds|This is|These are|Has)\b")
"""First words of a docstring that say nothing."""
TWICE = re.compile(r"\b(is told|are told|who asks|beside|weighs? at most)\b")
"""Words of the house's own dialect, in the first line of a docstring."""
MOST_WORDS = 40
FOLDERS = ("docs/tutorial", "docs/concepts")
PAGES = (
    "README.md",
    "docs/limits.md",
    *(path.relative_to(ROOT).as_posix() for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.md"))),
)


def is_filler(doc: str) -> bool:
    return bool(FILLERS.match(doc) or TWICE.search(re.sub("`[^`]*`", "", doc.split("\n")[0])))


def filler_docstrings(path: Path) -> Iterator[str]:
    """The docstrings of classes and functions of a file that open with a filler."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            doc = ast.get_docstring(node) or ""
            if is_filler(doc):
                yield f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {doc.split(chr(10))[0]}"


def sentences(page: str) -> Iterator[str]:
    """The sentences of a Markdown text, without code blocks, tables and headings; an item of a list begins one."""
    prose = re.sub(r"(?m)^(\||#).*$", "", re.sub(r"```.*?```", "", page, flags=re.S))
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.) )", prose):
        yield from re.split(r"(?<=[.!?:])\s+(?=[A-Z`*\[])", " ".join(paragraph.split()))


def long_sentences(page: str) -> list[str]:
    return [sentence for sentence in sentences(page) if len(sentence.split()) > MOST_WORDS]


def test_docstrings_open_with_what_a_thing_is() -> None:
    files = sorted((ROOT / "dpproxy").rglob("*.py"))
    assert len(files) > 300
    assert [line for path in files for line in filler_docstrings(path)] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_sentence_is_read_once(page: str) -> None:
    assert long_sentences((ROOT / page).read_text()) == []


@pytest.mark.parametrize(
    "doc", ["Is a copy.", "Says how far a copy is.", "Holds rows.", "Return what the client is told.", "Rows beside."]
)
def test_fillers_are_seen(doc: str) -> None:
    assert is_filler(doc)


def test_long_sentences_are_seen() -> None:
    long = "word " * MOST_WORDS + "more."
    assert (
        len(
            long_sentences(f"# Title\n\nShort. {long.capitalize()} Short again.\n\n- {long}\n\n```sql\n{long}\n```\n| {long} |\n")
        )
        == 2
    )


ROOMS = ("authoring", "policy", "review", "console", "plan", "session")
"""Rooms whose texts are for people who write policies, watch a proxy, or ask: notices, EXPLAIN, refusals."""
TWICE_READ = re.compile(r"\b(?:weigh(?:s|ed)?|displaced|told|beside|noticed|heard|(?<!\{)wholes?(?! (?:numbers?|rows?)))\b", re.I)
"""Words that make a reader stop: each has a plainer one."""


NAMES = ("Ranks Beside", " beside its count", " beside ")
"""Parts of names of measurements and of keys of EXPLAIN's JSON, which stay as they are."""


def _is_read(text: str) -> bool:
    return " " in text and text not in NAMES


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Texts of a file that somebody reads as they are: all but docstrings, comments and single words."""
    tree = ast.parse(path.read_text())
    bodies = [getattr(node, "body", []) for node in ast.walk(tree)]
    docs = {id(s.value) for body in bodies if isinstance(body, list) for s in body if isinstance(s, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs and _is_read(node.value):
            yield node.lineno, node.value


@pytest.mark.parametrize("room", ROOMS)
def test_no_word_of_a_message_is_read_twice(room: str) -> None:
    files = sorted((ROOT / "dpproxy" / room).rglob("*.py"))
    assert [f"{f.name}:{line}: {said}" for f in files for line, said in texts(f) if TWICE_READ.search(said)] == []


@pytest.mark.parametrize("folder", ["policies", "concepts"])
def test_no_word_of_a_page_is_read_twice(folder: str) -> None:
    """The page of mistakes shows messages of other rooms as well."""
    pages = [p for p in sorted((ROOT / "docs" / folder).glob("*.md")) if p.name != "mistakes.md"]
    found = [f"{p.name}: {line}" for p in pages for line in p.read_text().splitlines() if TWICE_READ.search(line)]
    assert pages
    assert found == []


def test_words_read_twice_are_seen() -> None:
    assert all(TWICE_READ.search(f"a row {word} it") for word in ("weighs", "displaced", "told", "beside", "whole"))
    assert not TWICE_READ.search("write a whole number, or whole numbers")
