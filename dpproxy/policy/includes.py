"""What a policy takes from elsewhere: `include` names more files, `${env:NAME}` and `${file:path}` name secrets.

Knows: which parts a file may hold, how mappings are put together, where secrets may live. Must not know: what a table, a role or
an address says. What is wrong in an included file is told with its name. Files are relative to the policy's; they include no
others, so that whoever reads the first sees which there are.
"""

from __future__ import annotations

import collections.abc
import re
from dataclasses import dataclass
from pathlib import Path

from dpproxy.policy.policy_keys import INCLUDED
from dpproxy.policy.problems import Mark, PolicyError
from dpproxy.policy.reader import Reader, kind
from dpproxy.policy.scalars import is_null
from dpproxy.policy.tree import MAX_BYTES, Mapping, Node, Scalar, parse

MOST = 100  # files of one policy


@dataclass(frozen=True)
class Whole:
    """A whole policy: its tree, and the texts and paths of the files that it includes. `unread`: how many could not be read:
    whatever is missing may be in them."""

    root: Node
    texts: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    unread: int = 0


def text_of(path: Path, at: Mark, file: str) -> str:
    """Read a file of a policy, which is named at a place of `file`. Raises PolicyError."""
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_BYTES + 1).decode("utf-8-sig")  # one byte more is enough to see that it is too large
    except OSError as error:
        own = str(path) == file
        what = f"cannot be read: {error.strerror}" if own else f"`{path.name}` cannot be read: {error.strerror}"
        fix = "name a policy file that can be read" if own else "name a file that can be read, relative to this one"
        raise PolicyError([at.problem(file, what, fix, "unreadable-file")]) from None
    except UnicodeDecodeError:
        raise PolicyError(
            [Mark(1, 1).problem(str(path), "is not UTF-8 text", "save the file as UTF-8", "unreadable-file")]
        ) from None


def with_included(reader: Reader, root: Node, base: Path) -> Whole:
    """Return a policy with the parts of the files that it includes. Problems are recorded in `reader`."""
    if not isinstance(root, Mapping) or "include" not in root.entries:
        return Whole(root)
    entries, keys = dict(root.entries), dict(root.keys)
    listed = reader.items(entries.pop("include"), "include") or ()
    if len(listed) > MOST:
        reader.problem(keys["include"], f"more than {MOST} files", "put several tables into one file", "too-large")
    texts, files, unread = [], [], 0
    for node in listed[:MOST]:
        name = reader.text(node, "include")
        if name is None:
            continue
        path = base / name
        own = path.resolve() == Path(reader.file).resolve()
        known = "this file itself" if own else "given twice" if path in files else ""
        if known:
            reader.problem(node.at, f"`{name[:80]}` is {known}", "name each other file once", "duplicate")
            continue
        try:
            text = text_of(path, node.at, reader.file)
            part = parse(text, str(path), included=True)
        except PolicyError as error:
            reader.problems += error.problems
            unread += 1
            continue
        texts.append(text)
        files.append(path)
        _merge(reader, part, entries, keys)
    return Whole(Mapping(entries, keys, root.at), tuple(texts), tuple(files), unread)


def _merge(reader: Reader, part: Node, entries: dict[str, Node], keys: dict[str, Mark]) -> None:
    """Add the sections of one file to those there are."""
    for section, node in (reader.mapping(part, INCLUDED) or {}).items():
        present = entries.get(section)
        assert isinstance(part, Mapping)
        if present is None or (isinstance(present, Scalar) and not present.text):
            entries[section], keys[section] = node, part.keys[section]
        elif not isinstance(node, Mapping) or not isinstance(present, Mapping):
            wrong = present if isinstance(node, Mapping) else node
            reader.problem(
                wrong.at, f"`{section}` must be a mapping, not {kind(wrong)}", "write `name: ...` entries", "wrong-type"
            )
        else:
            entries[section] = _joined(reader, present, node)


def _joined(reader: Reader, present: Mapping, more: Mapping) -> Mapping:
    for name in present.entries.keys() & more.entries.keys():
        first = present.keys[name]
        where = f"{Path(first.file or reader.file).name}, line {first.line}"
        reader.problem(more.keys[name], f"`{name}` is given twice", f"keep one; the first is in {where}", "duplicate")
    return Mapping({**more.entries, **present.entries}, {**more.keys, **present.keys}, present.at)


# References in a backend's address: `${env:NAME}` and `${file:path}`.
#
# Knows: where secrets may live outside the policy. Must not know: what they are for. A reference is replaced once and never
# looked into again; messages name the reference and never its value.


MAX_SECRET_BYTES = 64 * 1024  # a connection string or a key; a larger file is not a secret
_REFERENCE = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True)
class Secrets:
    """Replaces references by what they refer to. Files are relative to `base`, the policy's folder."""

    env: collections.abc.Mapping[str, str]
    base: Path

    def read(self, reader: Reader, node: Node, what: str) -> str | None:
        """Return the text of a field with its references replaced. Problems are recorded in `reader`."""
        if not isinstance(node, Scalar) or not node.text or is_null(node):
            seen = "empty" if isinstance(node, Scalar) and not node.plain else kind(node)
            reader.problem(node.at, f"`{what}` must be text, not {seen}", "write text, ${env:NAME} or ${file:path}", "wrong-type")
            return None
        parts: list[str] = []
        end = 0
        for found in _REFERENCE.finditer(node.text):
            value = self._value(reader, node, found[1])
            if value is None:
                return None
            parts += [node.text[end : found.start()], value]
            end = found.end()
        return "".join([*parts, node.text[end:]])

    def _value(self, reader: Reader, node: Scalar, reference: str) -> str | None:
        source, _, name = reference.partition(":")
        if source == "env" and name:
            value = self.env.get(name)
            if value is None:
                reader.problem(node.at, f"the environment has no `{name}`", f"set it: export {name}=...", "secret-reference")
            return value
        if source == "file" and name:
            return self._file(reader, node, name)
        reader.problem(node.at, "not a reference that is known", "write ${env:NAME} or ${file:path}", "secret-reference")
        return None

    def _file(self, reader: Reader, node: Scalar, name: str) -> str | None:
        try:
            with (self.base / name).open("rb") as stream:
                data = stream.read(MAX_SECRET_BYTES + 1)
            if len(data) > MAX_SECRET_BYTES:
                raise ValueError("too large")
            return data.decode().rstrip("\r\n")
        except (OSError, ValueError) as error:
            fix = "make it a small text file that the proxy can read"
            reader.problem(node.at, f"the file `{name[:80]}` cannot be used ({type(error).__name__})", fix, "secret-reference")
            return None
