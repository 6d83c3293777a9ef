"""The errors page of the documents: every refusal that the code can make, with cause and remedy, read from the code itself.

Knows: the syntax tree of `dpproxy`, how a refusal is made. Must not know: what any statement gets. A message is found where it is
made; what a parameter or a local variable holds is looked up where it is given. A message of which nothing is known, or that
belongs to no topic of `reference_topics`, is an error here, so that no refusal is forgotten. `scripts/reference.py` writes
the page.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path

from reference_remedies import REMEDIES
from reference_topics import HEAD, TOLD, TOPICS, Topic

from dpproxy import errors
from dpproxy.plan import refusals

SOURCE = Path(errors.__file__).parent
ELSEWHERE = ("authoring/", "review/", "demo.py")
"""What is told to authors of policies, not to clients: `docs/policies/mistakes.md` has that."""
MAKERS = {"Refusal", "FormRefusal", "NoRoom", "UnprovenPlan", "ProtocolError", "_refuse", "fatal"}
"""What is called with an SQLSTATE and a message. `_refuse` is that of the login, `fatal` ends a session."""
UNSUPPORTED = {"unsupported", "unsupported_form"}
_MADE = re.compile(rf"\b({'|'.join(sorted(MAKERS | UNSUPPORTED))})\(")
DEEP = 4
"""Calls that a text is followed through."""


@dataclass(frozen=True)
class Site:
    """A place where a refusal is made: the names of its SQLSTATEs, its messages, and its hints, which may be none."""

    path: str
    line: int
    states: tuple[str, ...]
    messages: tuple[str, ...]
    hints: tuple[str, ...]


@cache
def tree(path: Path) -> ast.Module:
    """The file's tree; each node knows what is around it."""
    module = ast.parse(path.read_text())
    for node in ast.walk(module):
        for child in ast.iter_child_nodes(node):
            child.around = node  # type: ignore[attr-defined]
    return module


def named(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def function_around(node: ast.AST) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    while (node := getattr(node, "around", None)) is not None:  # type: ignore[assignment]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            return node
    return None


class Reader:
    """Texts of one file, as far as its code tells them. What it does not tell stands between angle brackets. `given`: what one
    call gives for the parameters of the function that is read."""

    def __init__(self, module: ast.Module, given: Mapping[str, ast.expr] | None = None) -> None:
        self.module, self.given = module, given or {}

    def texts(self, node: ast.expr | None, depth: int = 0) -> list[str]:
        """What the expression may be as a text; nothing if it is None."""
        match node:
            case None | ast.Constant(value=None):
                return []
            case ast.Constant(value=value):
                return [str(value)]
            case ast.JoinedStr(values=parts):
                return ["".join(chosen) for chosen in product(*(self._part(part, depth, part is parts[-1]) for part in parts))]
            case ast.IfExp(body=one, orelse=other):
                return [*self.texts(one, depth), *self.texts(other, depth)]
            case ast.BoolOp(op=ast.Or(), values=values):
                return [text for value in values for text in self.texts(value, depth)]
            case ast.Name(id=name) if name in self.given and depth < DEEP:
                return Reader(self.module).texts(self.given[name], depth + 1)
            case ast.Name(id=name) if depth < DEEP:
                return [t for value in self.values(name, node) for t in self.texts(value, depth + 1)] or [f"<{name}>"]
            case ast.BinOp(left=one, op=ast.Add(), right=other):
                return ["".join(both) for both in product(self.texts(one, depth), self.texts(other, depth) or [""])]
            case ast.Call(func=ast.Attribute(value=ast.Name() as text, attr="format")):
                return [re.sub(r"\{(\w*)\}", r"<\1>", found) for found in self.texts(text, depth)]
            case ast.Call(func=ast.Attribute(attr="get"), args=[_, other]):
                return self.texts(other, depth)
            case ast.Call() if depth < DEEP and (made := self._made(node)):
                return [text for reader, value in made for text in reader.texts(value, depth + 1)]
        return [f"<{_short(node)}>"]

    def _part(self, part: ast.expr, depth: int, last: bool) -> list[str]:
        """What a part of a formatted text may be: a constant, a text that is given for a name, or the name in brackets. Only the
        last part may be nothing."""
        if isinstance(part, ast.Constant):
            return [str(part.value)]
        assert isinstance(part, ast.FormattedValue)
        known = self.texts(part.value, depth + 1) if isinstance(part.value, ast.Name) else []
        known = [text for text in dict.fromkeys(known) if (text or last) and not re.search(r"<[\w.]+>", text)]
        if part.format_spec is not None and len(known) == 1 and known[0].isdigit():
            return [f"{int(known[0]):,}"]
        return known or [f"<{_short(part.value)}>"]

    def values(self, name: str, at: ast.AST) -> Iterator[ast.expr]:
        """What is assigned to a name around the node, or given for it as a parameter, or defined in the file."""
        function = function_around(at)
        inner = ast.walk(function) if function is not None else iter(())
        yield from (value for node in [*inner, *self.module.body] for value in self._assigned(node, name))
        if function is not None:
            yield from self._given(name, function)

    def _assigned(self, node: ast.AST, name: str) -> Iterator[ast.expr]:
        """What a statement makes of the name."""
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=targets)], value=ast.Tuple(elts=values)):
                yield from (value for target, value in zip(targets, values, strict=False) if getattr(target, "id", "") == name)
            case ast.Assign(targets=targets, value=value) if any(getattr(target, "id", "") == name for target in targets):
                yield value
            case ast.AnnAssign(target=ast.Name(id=found), value=ast.expr() as value) if found == name:
                yield value
            case ast.ImportFrom(module=str(module), names=names) if any(alias.name == name for alias in names):
                yield from self._imported(name, module)

    def _imported(self, name: str, module: str) -> Iterator[ast.expr]:
        path = SOURCE.parent.joinpath(*module.split(".")).with_suffix(".py")
        if path.is_file():
            yield from Reader(tree(path)).values(name, tree(path))

    def _given(self, name: str, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
        names = _parameters(function)
        if name not in names:
            return
        for call in ast.walk(self.module):
            if isinstance(call, ast.Call) and named(call) == function.name:
                place = names.index(name)
                yield from call.args[place : place + 1]
                yield from (keyword.value for keyword in call.keywords if keyword.arg == name)

    def _made(self, call: ast.Call) -> list[tuple[Reader, ast.expr]]:
        """What a function of this file returns, beside what it is given."""
        handed = [self.given.get(given.id, given) if isinstance(given, ast.Name) else given for given in call.args]
        functions = [f for f in ast.walk(self.module) if isinstance(f, ast.FunctionDef) and f.name == named(call)]
        readers = [(f, Reader(self.module, dict(zip(_parameters(f), handed, strict=False)))) for f in functions]
        return [(reader, r.value) for f, reader in readers for r in ast.walk(f) if isinstance(r, ast.Return) and r.value]


def _parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args if argument.arg != "self"]


def _short(node: ast.AST) -> str:
    """A name for what only the statement tells."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return {"unit_name": "unit", "__name__": "form"}.get(name, name.lstrip("_"))
        case ast.Call(func=function, args=[first, *_]) if isinstance(function, ast.Name):
            return _short(first)
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)):
            return name.lstrip("_")
        case ast.Call(func=ast.Attribute(value=inner)) | ast.Subscript(value=inner):
            return _short(inner)
    return "..."


@cache
def sites(source: Path = SOURCE) -> tuple[Site, ...]:
    """All places where a client is told an error, but those that copy another."""
    paths = [path for path in sorted(source.rglob("*.py")) if not path.relative_to(source).as_posix().startswith(ELSEWHERE)]
    return tuple(site for path in paths if _MADE.search(path.read_text()) for site in _sites(path, source))


def _sites(path: Path, source: Path) -> Iterator[Site]:
    module, name = tree(path), path.relative_to(source).as_posix()
    reader = Reader(module)
    for call in ast.walk(module):
        if not isinstance(call, ast.Call) or not call.args or named(call) not in MAKERS | UNSUPPORTED:
            continue
        if getattr(function_around(call), "name", "") in UNSUPPORTED:
            continue
        fields = _keywords(call)
        if named(call) in UNSUPPORTED:
            hint = call.args[1] if len(call.args) > 1 else fields.get("hint")
            for read in _readers(call, reader):
                told = [f"{what} is not supported below an aggregate over private rows" for what in read.texts(call.args[0])]
                yield Site(name, call.lineno, ("FEATURE_NOT_SUPPORTED",), tuple(told), _hints(hint, read) or (refusals.AROUND,))
        elif named(call) in MAKERS and len(call.args) > 1 and not _copied(call):
            hint = call.args[4] if len(call.args) > 4 else fields.get("hint")
            for read in _readers(call, reader):
                site = Site(name, call.lineno, tuple(_states(call.args[0], read)), tuple(read.texts(call.args[1])), ())
                yield from _told(site, _hints(hint, read), module)


def _readers(call: ast.Call, reader: Reader) -> list[Reader]:
    """Where the error is made of parameters, a reader for each call of the function around it: what it gives belongs together."""
    function = function_around(call)
    names = _parameters(function) if function is not None else []
    if function is None or not {node.id for node in ast.walk(call) if isinstance(node, ast.Name)} & set(names):
        return [reader]
    calls = [other for other in ast.walk(reader.module) if isinstance(other, ast.Call) and named(other) == function.name]
    given = [dict(zip(names, other.args, strict=False)) | _keywords(other) for other in calls]
    return [Reader(reader.module, each) for each in given] or [reader]


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _told(site: Site, hints: tuple[str, ...], module: ast.Module) -> Iterator[Site]:
    """The site with its messages, which a table of its file may hold, or `TOLD`."""
    unknown = [message for message in site.messages if re.fullmatch(r"<[^>]*>", message)]
    if not unknown:
        yield replace(site, hints=hints)
    elif rows := list(_table(module)):
        yield from (replace(site, states=(state,), messages=(told,), hints=(hint,) if hint else ()) for state, told, hint in rows)
    elif (key := (site.path, unknown[0])) in TOLD:
        if TOLD[key]:
            yield replace(site, messages=TOLD[key], hints=hints)
    else:
        raise ValueError(f"{site.path}:{site.line}: nothing is known of {unknown}: say in `reference_topics.TOLD` what it may be")


def _table(module: ast.Module) -> Iterator[tuple[str, str, str]]:
    """Rows of SQLSTATE, message and hint in a dictionary of the file."""
    for statement in module.body:
        if isinstance(statement, ast.AnnAssign | ast.Assign) and isinstance(statement.value, ast.Dict):
            for row in statement.value.values:
                if isinstance(row, ast.Tuple) and len(row.elts) == 3 and isinstance(row.elts[0], ast.Name):
                    _, told, hint = row.elts
                    reader = Reader(module)
                    yield row.elts[0].id, *(" ".join(reader.texts(part)) for part in (told, hint))


def _copied(call: ast.Call) -> bool:
    """Whether the error is made of another one, or only hands on what it was given."""
    first, second = call.args[:2]
    handed_on = isinstance(first, ast.Name) and isinstance(second, ast.Name) and named(call) in {"fatal", "_refuse"}
    return isinstance(first, ast.Attribute | ast.Starred) or isinstance(second, ast.Starred) or handed_on


def _hints(node: ast.expr | None, reader: Reader) -> tuple[str, ...]:
    """What to do, as far as the code tells it: a hint that only the statement tells is left out."""
    return tuple(dict.fromkeys(text for text in reader.texts(node) if not re.fullmatch(r"<[^>]*>", text) and text))


def _states(node: ast.expr, reader: Reader) -> list[str]:
    """Names of SQLSTATEs."""
    if isinstance(node, ast.Name) and node.id in reader.given:
        return _states(reader.given[node.id], Reader(reader.module))
    nodes = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [node]
    found = [name.id for name in nodes if isinstance(name, ast.Name) and hasattr(errors, name.id)]
    if not found and isinstance(node, ast.Name):
        found = [value.id for value in reader.values(node.id, node) if isinstance(value, ast.Name)]
    return list(dict.fromkeys(found))


def topic_of(site: Site) -> Topic:
    for topic in TOPICS:
        if topic.holds(site.path, site.states):
            return topic
    raise ValueError(
        f"{site.path}:{site.line}: {site.messages} ({', '.join(site.states)}) belongs to no topic of reference_topics"
    )


def page(source: Path = SOURCE) -> str:
    """The page, as Markdown."""
    by_topic: dict[str, dict[str, tuple[set[str], list[str]]]] = {
        topic.title: {message: ({state}, [hint]) for message, state, hint in topic.besides} for topic in TOPICS
    }
    for site in sites(source):
        for message in dict.fromkeys(site.messages):
            states, hints = by_topic[topic_of(site).title].setdefault(message, (set(), []))
            states.update(getattr(errors, state) for state in site.states)
            hints.extend(hint for hint in site.hints if hint not in hints)
    without = {message for topic in by_topic.values() for message, (_, hints) in topic.items() if not hints}
    for message in sorted(without - REMEDIES.keys()):
        raise ValueError(f"`{message}` has no remedy: give it a hint where it is made, or an entry of `reference_remedies`")
    return "\n".join([HEAD, *(line for topic in TOPICS for line in _section(topic, by_topic[topic.title]))])


def _section(topic: Topic, messages: dict[str, tuple[set[str], list[str]]]) -> Iterator[str]:
    yield from (f"## {topic.title}", "", topic.cause, "", f"**What to do:** {topic.remedy}", "")
    yield from ("| message | SQLSTATE | what to do |", "|---|---|---|")
    for message, (states, hints) in sorted(messages.items(), key=lambda item: item[0].lower().lstrip("`<")):
        yield f"| {cell(message)} | {', '.join(sorted(states))} | {_plain(' '.join(hints)) or REMEDIES[message]} |"
    yield ""


def cell(text: str) -> str:
    """A message in a cell of a table."""
    escaped = text.replace("|", r"\|")
    return f"`` {escaped} ``" if "`" in text else f"`{escaped}`"


def _plain(text: str) -> str:
    """A sentence in a cell of a table: what stands between backticks stays, elsewhere signs of Markdown are only signs."""
    parts = re.split(r"(`[^`]*`)", text.replace("|", r"\|"))
    return "".join(part if i % 2 else re.sub(r"([*_])", r"\\\1", part.replace("<", "&lt;")) for i, part in enumerate(parts))
