"""YAML text to a tree of scalars, sequences and mappings, each with its place in the file.

Knows: YAML's events. Must not know: policies. The tree is built from the parser's events rather than by a YAML
constructor, so that no tag can make an object, no alias can multiply a document (the "billion laughs"), duplicate
keys are seen, depth is bounded by a counter and not by the interpreter's stack, and scalars stay text until the
reader of a field says what it expects (no `no` -> false, no `1:30` -> 90). Size is checked before parsing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Sequence as Series
from dataclasses import dataclass, field
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    Event,
    MappingEndEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from dpproxy.policy.problems import START, Code, Mark, PolicyError, Problem

MAX_BYTES = 1 << 20  # a policy of 1,000 wide tables is some 300 KB; more is a mistake or an attack
MAX_DEPTH = 16  # the format needs 6
TYPOGRAPHIC = frozenset("“”„‘’‚«»")  # what word processors make of quotes


@dataclass(frozen=True)
class Scalar:
    """A leaf of the tree. `plain`: written without quotes, so that it may mean a number, a date, true, null."""

    text: str
    plain: bool
    at: Mark


@dataclass(frozen=True)
class Sequence:
    items: tuple[Node, ...]
    at: Mark


@dataclass(frozen=True)
class Mapping:
    """Named nodes. `keys` are the places of the keys: errors about an entry point there."""

    entries: dict[str, Node]
    keys: dict[str, Mark]
    at: Mark


Node = Scalar | Sequence | Mapping


def parse(text: str, file: str, included: bool = False) -> Node:
    """Return the tree of the one document in `text`. `included`: places in it name the file. Raises PolicyError with every
    problem found."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise PolicyError(
            [Problem(file, 1, 1, f"larger than {MAX_BYTES} bytes", "split the data set or the policy", "too-large")]
        )
    builder = _Builder(file, included)
    try:
        for event in _events(text):
            if not builder.take(event):
                break
    except MarkedYAMLError as error:
        builder.syntax(error, text)
    except YAMLError as error:
        builder.problem(START, f"not YAML text: {str(error).splitlines()[0]}", "save the file as plain UTF-8 text", "yaml")
    except Exception as error:  # the parser's own slips on rubbish (IndexError and the like) are rubbish, too
        builder.problem(START, f"not YAML ({type(error).__name__})", "check the indentation and quotes", "yaml")
    return builder.result()


def _events(text: str) -> Iterator[Event]:
    events: Iterator[Event] = YAML(typ="safe", pure=True).parse(text)
    return events


OPEN: Final = "TODO"
"""In a comment: a decision that nobody has made yet."""


def open_decisions(text: str, file: str = "") -> Iterator[tuple[Mark, str]]:
    """Yield each comment of a YAML text that says TODO, with its place and what it says. `file`: that of an included text."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in _QUOTED.finditer(line) if OPEN in line else ():
            if found[0].startswith("#") and OPEN in found[0]:
                yield Mark(number, found.start() + 1, file), found[0].partition(OPEN)[2].strip(" :")


_QUOTED = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"|(?<!\S)#.*")


def _unclosed(lines: Series[str]) -> Mark | None:
    """The first double quote that its line leaves open, of lines that are no YAML."""
    for number, line in enumerate(lines, 1):
        rest = _QUOTED.sub(lambda found: " " * len(found[0]), line)
        if '"' in rest and "'" not in rest:
            return Mark(number, rest.index('"') + 1)
    return None


_MENDED = (
    ("mapping values are not allowed", "put a text that holds `: ` in quotes; indent the line like its neighbours"),
    ("block end", "indent this line, and the one before it, like the other entries of their mapping or list"),
    ("expected ':'", "write `name: value`, with a space behind the colon"),
    ("expected ',' or", "close the bracket or brace, and part its entries by commas"),
    ("quoted scalar", "close the quotes"),
    ("cannot start any token", "put a text that begins with this sign in quotes"),
)
"""What the parser says, and what will have to be written instead."""


def _mended(what: str, context: str, line: str) -> str:
    if "${" in line:
        return 'put references in quotes inside braces: "${env:NAME}"'
    if "\t" in line.lstrip(" ")[:1] or "'\\t'" in what:
        return "indent with spaces: YAML allows no tabs there"
    found = (fix for said, fix in _MENDED if said in what or said in context)
    return next(found, "check the indentation, brackets and quotes here")


@dataclass
class _Open:
    """A collection whose end has not come yet. `pending` is a mapping's key that waits for its value."""

    at: Mark
    mapping: bool
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Node] = field(default_factory=dict)
    keys: dict[str, Mark] = field(default_factory=dict)
    pending: Scalar | None = None

    def close(self) -> Node:
        return Mapping(self.entries, self.keys, self.at) if self.mapping else Sequence(tuple(self.items), self.at)


class _Builder:
    def __init__(self, file: str, included: bool) -> None:
        self._file, self._within = file, file if included else ""
        self._problems: list[Problem] = []
        self._stack: list[_Open] = []
        self._root: Node | None = None
        self._documents = 0

    def problem(self, at: Mark, what: str, fix: str, code: Code) -> None:
        self._problems.append(at.problem(self._file, what, fix, code))

    def _mark(self, mark: object) -> Mark:
        return Mark(getattr(mark, "line", 0) + 1, getattr(mark, "column", 0) + 1, self._within)

    def syntax(self, error: MarkedYAMLError, text: str) -> None:
        at, lines, what = (
            self._mark(error.problem_mark or error.context_mark),
            text.splitlines(),
            f"{error.problem or error.context}",
        )
        begun = self._mark(error.context_mark) if error.context_mark is not None else at
        if begun.line < at.line and any(word in f"{error.context}" for word in ("flow", "simple key")):
            at = begun  # the bracket that is not closed, the name without its value
        line = lines[at.line - 1] if at.line <= len(lines) else ""
        quote = _unclosed(lines[: at.line])
        if quote is not None:
            self.problem(quote, "not YAML: a quote is not closed on this line", "close the quotes", "yaml")
            return
        self.problem(at, f"not YAML: {what}", _mended(what, f"{error.context or ''}", line), "yaml")

    def result(self) -> Node:
        if self._problems:
            raise PolicyError(self._problems)
        if self._root is None:
            raise PolicyError([Problem(self._file, 1, 1, "the file is empty", "start with `version: 1`", "empty")])
        return self._root

    def take(self, event: Event) -> bool:
        """Add one event. False: stop reading, the rest is not worth it."""
        match event:
            case DocumentStartEvent():
                return self._document(event)
            case AliasEvent():
                self.problem(self._mark(event.start_mark), "aliases are not allowed", "write the value out again", "yaml-feature")
                self._add(Scalar("", False, self._mark(event.start_mark)))
            case ScalarEvent():
                self._check(event)
                if event.style in (None, "") and event.value[:1] in TYPOGRAPHIC:
                    what = f"`{event.value[:1]}` is a quote of typography, not of YAML"
                    self.problem(self._mark(event.start_mark), what, 'write straight quotes, as in "north", or none', "yaml")
                self._add(Scalar(event.value, event.style in (None, ""), self._mark(event.start_mark)))
            case MappingStartEvent() | SequenceStartEvent():
                return self._begin(event)
            case MappingEndEvent() | SequenceEndEvent():
                self._add(self._stack.pop().close())
            case DocumentEndEvent():
                pass
        return True

    def _document(self, event: DocumentStartEvent) -> bool:
        self._documents += 1
        if self._documents > 1:
            self.problem(
                self._mark(event.start_mark), "a second document", "keep one policy a file, without `---` inside", "yaml-feature"
            )
        return self._documents == 1

    def _begin(self, event: NodeEvent) -> bool:
        self._check(event)
        at = self._mark(event.start_mark)
        if len(self._stack) >= MAX_DEPTH:
            self.problem(at, f"nested deeper than {MAX_DEPTH} levels", "the policy format needs far fewer levels", "too-large")
            return False
        self._stack.append(_Open(at, isinstance(event, MappingStartEvent)))
        return True

    def _check(self, event: NodeEvent) -> None:
        if event.anchor is not None:
            self.problem(self._mark(event.start_mark), "anchors are not allowed", f"remove `&{event.anchor}`", "yaml-feature")
        tag = getattr(event, "tag", None)
        if tag is not None:
            self.problem(self._mark(event.start_mark), "tags are not allowed", f"remove the tag `{tag}`", "yaml-feature")

    def _add(self, node: Node) -> None:
        if not self._stack:
            self._root = node
            return
        top = self._stack[-1]
        if not top.mapping:
            top.items.append(node)
        elif top.pending is None:
            top.pending = self._key(node)
        else:
            key, top.pending = top.pending, None
            if key.text in top.entries:
                first = top.keys[key.text]
                fix = f"keep one; the first is on line {first.line}"
                self.problem(key.at, f"`{key.text}` is given twice", fix, "duplicate")
            else:
                empty = isinstance(node, Scalar) and node.plain and not node.text  # the parser places it after the gap
                top.entries[key.text] = Scalar("", True, key.at) if empty else node
                top.keys[key.text] = key.at

    def _key(self, node: Node) -> Scalar:
        if isinstance(node, Scalar):
            return node
        self.problem(node.at, "a key must be a name", "write `name: value`", "yaml")
        return Scalar(f"\0{node.at}", False, node.at)  # unique, and cannot be written in YAML
