"""What documents name exists: files, modules, classes, functions, options of the command line.

Knows: the text of docstrings, comments and pages. Must not know: whether what is said of a name is true; that is for readers.

In the docstrings and comments of `dpproxy` these must exist:

- paths that end in `.py`, `.yaml` or `.md`: from the root of the repository, from `dpproxy/`, or beside the file that names them;
- dotted names that begin with a file, a room or a class of ours (`bind.joins`, `key_domains.dense_domain`, `Plan.inputs`), between
  backticks, or anywhere when they begin with a room: a file, or what a file or class defines;
- plain names between backticks: a name or a word of a text in the code of the same file, a file, a room, what some file or class
  of ours defines, or a key of a policy. Whatever else they name is somebody else's, and stands in `FOREIGN`.

In the pages (README.md, CONTRIBUTING.md, docs/) these must exist: paths that begin with a folder of the repository, dotted names as
above, commands of `dpproxy`, and options of commands and scripts. Pages that `scripts/reference` writes say what the code says now.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from dpproxy.cli import commands
from dpproxy.late_commands import LateCommand

ROOT: Final = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

import reference  # noqa: E402

PAGES: Final = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FOLDERS: Final = ("docker", "docs", "dpproxy", "packaging", "policies", "scripts", "tests")

FOREIGN: Final = frozenset(
    [
        "client_connection_check_interval",
        "ctid",
        "date_part",
        "format_type",
        "pg_authid.rolpassword",
        "pg_input_is_valid",
        "pg_temp_3",
        "pg_type.dat",
        "pgbench",
        "postgres.c",
        "pqformat.c",
        "scram_iterations",
        "standard_conforming_strings",
        "statement_timeout",
    ]  # PostgreSQL
    + ["__traceback__", "asyncio.to_thread", "contextlib", "finally", "sun_path"]  # Python, the system
    + ["Anonymous"]  # sqlglot
    + ["b0", "b1", "b0s0", "b0s1", "k0", "k1", "o.region", "schema.table.column"]  # columns of queries in examples
)
"""Names that are somebody else's, with whose they are. A name of ours never belongs here."""

FOREIGN_OPTIONS: Final = frozenset({"--now", "--collect-only", "--maxfail", "--output", "--strict"})
"""Options of programs that are not ours: pytest, mypy, dbt, systemctl."""

FOREIGN_PROGRAMS: Final = re.compile(r"docker |kubectl |python -m pysail |    -v ")

MESSAGES: Final = frozenset({"errors.md"})
"""Pages whose code is what clients are told, not what they type."""

ADVICE: Final = "Write the name as it is now, or leave the name out. A name that is not ours goes to FOREIGN, with whose it is."

TICKED: Final = re.compile(r"`+([^`]+)`+")
PLAIN: Final = re.compile(r"[A-Za-z_]\w+(?:\(\))?")  # single letters stand for anything
DOTTED: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+(?:\(\))?")
PATH: Final = re.compile(r"(?<![\w/.$*<{-])[\w./-]*\w\.(?:py|yaml|md)\b(?!\()")


@dataclass(frozen=True)
class File:
    """A file of ours: what it defines, the words of its code, and what it says."""

    path: Path
    module: str
    tree: ast.Module

    @cached_property
    def defined(self) -> Set[str]:
        """What stands at the file's top: classes, functions, constants, names of types."""
        return {name for node in self.tree.body for name in _targets(node)}

    @cached_property
    def classes(self) -> Mapping[str, ast.ClassDef]:
        return {node.name: node for node in ast.walk(self.tree) if isinstance(node, ast.ClassDef)}

    @cached_property
    def words(self) -> Set[str]:
        """Names in the file's code, and the words of its texts that are not docstrings."""
        said = {id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Expr)}
        return {word for node in ast.walk(self.tree) if id(node) not in said for word in _words(node)}

    @cached_property
    def said(self) -> list[tuple[int, str]]:
        """Docstrings, of attributes too, and comments, each with its line."""
        found = [
            (node.lineno, node.value.value)
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ]
        tokens = tokenize.generate_tokens(io.StringIO(self.path.read_text()).readline)
        return found + [(token.start[0], token.string) for token in tokens if token.type == tokenize.COMMENT]


def _targets(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.Assign(targets=targets):
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name
        case ast.If() | ast.Try():
            yield from (name for inner in ast.iter_child_nodes(node) if isinstance(inner, ast.stmt) for name in _targets(inner))


def _members(node: ast.ClassDef) -> Iterator[str]:
    """What a class defines: methods, fields, and what its methods assign to `self`."""
    yield from (name for inner in node.body for name in _targets(inner))
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and isinstance(inner.ctx, ast.Store) and getattr(inner.value, "id", "") == "self":
            yield inner.attr


def _words(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=word) | ast.arg(arg=word) | ast.Attribute(attr=word) | ast.keyword(arg=str(word)):
            yield word
        case ast.ClassDef(name=word) | ast.FunctionDef(name=word) | ast.AsyncFunctionDef(name=word):
            yield word
        case ast.alias(name=name, asname=other):
            yield from (name.rpartition(".")[2], other or "")
        case ast.Constant(value=str(text)):
            yield from re.findall(r"\w+", text)


class House:
    """All files of ours, and whether a name is one of theirs."""

    def __init__(self, files: Mapping[str, File]) -> None:
        self.files = files
        self.parts = {part for module in files for part in module.split(".")}
        self.rooms = {module.split(".")[1] for module in files if "." in module}
        self.members: dict[str, set[str]] = {}
        for file in files.values():
            for name, node in file.classes.items():
                self.members.setdefault(name, set()).update(_members(node))
        self.bases = {
            name: {word for base in node.bases for part in ast.walk(base) for word in _words(part)}
            for file in files.values()
            for name, node in file.classes.items()
        }
        self.known = self.parts.union(*(file.defined for file in files.values()), *self.members.values())

    def member(self, owner: str, name: str) -> bool:
        """Whether a class, or one it inherits from, defines the name."""
        return name in self.members.get(owner, ()) or any(self.member(base, name) for base in self.bases.get(owner, ()))

    def ours(self, first: str) -> bool:
        return first in self.parts or first in self.members

    def resolves(self, name: str) -> bool:
        """`bind.joins`, `key_domains.dense_domain`, `plan.model.Plan.inputs`, `Plan.inputs`: file, what it defines, its members."""
        parts = name.removesuffix("()").removeprefix("dpproxy.").split(".")
        return any(
            f".{module}".endswith("." + ".".join(parts[:n])) and self._inside(file, parts[n:])
            for module, file in self.files.items()
            for n in range(1, len(parts) + 1)
        ) or (parts[0] in self.members and len(parts) == 2 and self.member(parts[0], parts[1]))

    def _inside(self, file: File, rest: list[str]) -> bool:
        if not rest:
            return True
        return rest[0] in file.defined and (len(rest) == 1 or (len(rest) == 2 and self.member(rest[0], rest[1])))


@cache
def modules() -> dict[str, Path]:
    """Our modules, and where they are: they are read by who tests them, not by who only collects."""
    found = {}
    for path in sorted((ROOT / "dpproxy").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def house() -> House:
    return House({module: File(path, module, ast.parse(path.read_text())) for module, path in modules().items()})


@cache
def policy_words() -> Set[str]:
    """Keys that a policy may have: what files of the room `policy` say in their texts."""
    return set().union(*(file.words for module, file in house().files.items() if module.startswith("dpproxy.policy.")))


def names_in(text: str) -> Iterator[str]:
    """What a docstring or comment names: all between backticks, and dotted names elsewhere that begin with a room."""
    yield from (found[1].strip() for found in TICKED.finditer(text))
    for found in DOTTED.finditer(TICKED.sub(" ", text)):
        if found[0].split(".")[0] in house().rooms and not PATH.fullmatch(found[0]):
            yield found[0]


def stale(name: str, file: File) -> bool:
    """Whether a docstring of the file names something that is nowhere."""
    if name.removesuffix("()") in FOREIGN:
        return False
    if PLAIN.fullmatch(name):
        word = name.removesuffix("()")
        return word not in file.words and word not in house().known and word not in policy_words()
    if not DOTTED.fullmatch(name) or PATH.fullmatch(name) or house().resolves(name):
        return False
    first, *rest = name.removesuffix("()").split(".")
    if house().ours(first) and not _variable(first, file):
        return True
    return not all(part in file.words | house().known | policy_words() for part in [first, *rest])


def _variable(name: str, file: File) -> bool:
    """Whether a name is a variable or an attribute in the file, and not what it imports."""
    imported = {
        alias.asname or alias.name for node in ast.walk(file.tree) if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    return name in file.words and name not in imported and name not in file.classes


def path_exists(path: str, beside: Path) -> bool:
    """Whether a file is there, or is made by a script and not kept (.gitignore)."""
    return path.endswith(".duckdb") or any((folder / path).exists() for folder in (ROOT, ROOT / "docs", ROOT / "dpproxy", beside))


def page_paths(text: str) -> Iterator[str]:
    """Paths below a folder of the repository or a room, without what a sentence puts behind them."""
    folders = "|".join([*FOLDERS, *sorted(house().rooms)])
    for found in re.finditer(rf"(?<![\w/.$*<-])(?:{folders})/[\w./-]*", text):
        yield found[0].rstrip(".")


def page_names(text: str) -> Iterator[str]:
    """Dotted names between backticks whose first part is a room or a class of ours, and that are no file of a state folder.

    Names that begin with `dpproxy` are tables and settings of the SQL schema `dpproxy`: pages write a file's name from its room on.
    """
    for found in TICKED.finditer(text):
        first, *rest = found[1].removesuffix("()").split(".")
        ours = first in house().rooms or first in house().members
        if DOTTED.fullmatch(found[1]) and ours and rest[0] not in ("sqlite", "jsonl") and not PATH.fullmatch(found[1]):
            yield found[1]


@cache
def options_of_commands() -> Mapping[str, Set[str]]:
    """The options of each command of `dpproxy`, by its words: `serve`, `ledger verify`."""
    found: dict[str, Set[str]] = {}

    def look(stated: Any, words: tuple[str, ...]) -> None:
        command = stated.loaded() if isinstance(stated, LateCommand) else stated
        found[" ".join(words)] = {
            option
            for parameter in command.params
            for option in (*parameter.opts, *parameter.secondary_opts)
            if option.startswith("--")
        }
        for name, inner in getattr(command, "commands", {}).items():
            look(inner, (*words, name))

    look(typer.main.get_command(commands), ())
    return found


@cache
def options_of_scripts() -> Set[str]:
    """Whatever looks like an option in our scripts and in the demo."""
    files = [*(ROOT / "scripts").iterdir(), ROOT / "dpproxy" / "demo.py"]
    return {option for path in files if path.is_file() for option in re.findall(r"--[a-z][a-z-]+", path.read_text())}


def code_in(page: str) -> Iterator[tuple[int, str]]:
    """What a page shows as code, with the number of its line: blocks between fences, drawings left out, and what is in backticks."""
    fenced = False
    for number, line in enumerate(page.splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif fenced and "-->" not in line and not FOREIGN_PROGRAMS.match(line):
            yield number, line
        elif not fenced:
            yield from ((number, found[1]) for found in TICKED.finditer(line))


def wrong_command(code: str) -> str | None:
    """What a piece of code says of the command line that is not so: a command, or an option that the command does not have."""
    known = set().union(*options_of_commands().values()) | options_of_scripts() | FOREIGN_OPTIONS
    called = re.match(r"\s*(?:\$ )?dpproxy ([a-z].*)", code.partition("#")[0])
    words = called[1].split() if called else []
    names = (n for n in (3, 2, 1) if " ".join(words[:n]) in options_of_commands())
    length = next(names, 1)
    name, rest = " ".join(words[:length]), words[length : length + 1]
    group = any(other.startswith(f"{name} ") for other in options_of_commands())
    if name == "budget":
        name = "budget show"
    elif group and rest and not rest[0].startswith(("-", "[")):
        name = f"{name} {rest[0]}"
    if words and name not in options_of_commands():
        return f"there is no command `dpproxy {name}`"
    options = re.findall(r"(?<![\w-])--[a-z][a-z-]+", code.partition("#")[0])
    unknown = [option for option in options if option not in (options_of_commands()[name] if words else known)]
    return f"`{code.strip()}` has no {', '.join(unknown)}" if unknown else None


def test_names_in_docstrings_and_comments_exist() -> None:
    missing = [
        f"{file.path.relative_to(ROOT)}:{line}: {what}"
        for module in sorted(modules())
        for file in [house().files[module]]
        for line, text in file.said
        for what in [
            *(name for name in names_in(text) if stale(name, file)),
            *(path for path in PATH.findall(text) if not path_exists(path, file.path.parent)),
        ]
    ]
    assert not missing, f"named, but nowhere: {missing}. {ADVICE}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_names_in_pages_exist(page: Path) -> None:
    missing = [
        f"{page.relative_to(ROOT)}:{number}: {what}"
        for number, line in enumerate(page.read_text().splitlines(), 1)
        for what in [
            *(path for path in page_paths(line) if not path_exists(path, page.parent)),
            *(link for link in re.findall(r"\]\(([^)#:]+)\)", line) if not (page.parent / link).exists()),
            *(name for name in page_names(line) if not house().resolves(name)),
        ]
    ]
    missing += [
        f"{page.relative_to(ROOT)}:{number}: {wrong}"
        for number, code in code_in(page.read_text() if page.name not in MESSAGES else "")
        if (wrong := wrong_command(code))
    ]
    assert not missing, f"named, but nowhere: {missing}. {ADVICE}"


@pytest.mark.parametrize("page", reference.PAGES)
def test_pages_written_from_the_code_say_what_it_says(page: str) -> None:
    assert (ROOT / page).read_text() == reference.PAGES[page](), "run scripts/reference, and look at what it changed"


def test_what_is_foreign_is_not_ours() -> None:
    assert {name for name in FOREIGN if house().resolves(name)} == set()


@pytest.mark.parametrize(
    "name",
    [
        "plan.bind.nothing",
        "plan.dialects.literal",
        "Plan.nothing",
        "noise_scale.Nothing",
        "quite_unheard_of",
        "unheard_of()",
        "ledger.nothing",
    ],
)
def test_the_test_sees_what_is_stale(name: str) -> None:
    assert stale(name, house().files["dpproxy.privacy.loss"])


@pytest.mark.parametrize(
    "name", ["plan.bind.joins", "Loss.pure", "privacy.loss.Loss", "epsilon", "timing.quantum", "ctid", "a = b"]
)
def test_and_leaves_the_rest_alone(name: str) -> None:
    assert not stale(name, house().files["dpproxy.privacy.loss"])


@pytest.mark.parametrize(
    "code",
    ["dpproxy serve a.yaml --unheard-of 3", "dpproxy policy nothing", "dpproxy budget a.yaml --key-file b", "scripts/x --never"],
)
def test_wrong_commands_are_seen(code: str) -> None:
    assert wrong_command(code)


def test_wrong_paths_are_seen() -> None:
    assert not path_exists("plan/bind/nothing.py", ROOT / "docs")
    assert list(page_paths("`plan/bind/nothing.py` and tests/nothing, not a/plan/b")) == ["plan/bind/nothing.py", "tests/nothing"]
    assert list(page_names("`plan.bind.nothing`, `answers.sqlite.broken`, `timing.quantum`")) == ["plan.bind.nothing"]


def test_pages_and_docstrings_are_looked_at() -> None:
    """An empty list would pass everything above."""
    assert {"README.md", "CONTRIBUTING.md", "architecture.md", "0001-a-real-empty-postgresql-as-facade.md"} <= {
        p.name for p in PAGES
    }
    assert sum(len(file.said) for file in house().files.values()) > 2_000
    assert len(list(code_in((ROOT / "CONTRIBUTING.md").read_text()))) > 50
