"""A policy in several files: `include` names more, each with tables, views, roles or users of its own.

Knows: which parts a file may hold, how mappings are put together. Must not know: what a table or a role says. What is wrong in an
included file is told with its name. Files are relative to the policy's; they include no others, so that whoever reads the first
sees which there are.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dpproxy.policy.policy_keys import INCLUDED
from dpproxy.policy.problems import Mark, PolicyError
from dpproxy.policy.reader import Reader, kind
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
