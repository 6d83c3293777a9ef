"""Reading a field: a node of the tree and what it should be, to a value or a recorded problem.

Knows: kinds of fields and how to word what is wrong with one. Must not know: which fields a policy has. Every method
returns None after recording a problem, so that reading goes on and all problems are reported at once; a caller that
sees None skips what depends on it and says nothing more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from dpproxy.policy import scalars
from dpproxy.policy.problems import Mark, Problem, suggestion
from dpproxy.policy.shapes import Shape
from dpproxy.policy.tree import Mapping, Node, Scalar, Sequence

Path = tuple[str, ...]
Positions = dict[Path, Mark]
REFERENCE = ("${env:", "${file:")


def kind(node: Node) -> str:
    """Return what a node is, for the phrase `not a number but a list`."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list"
    if scalars.is_null(node):
        return "nothing"
    return f"`{node.text[:40]}`" if node.plain else "quoted text"  # forty characters recognise a value in its line


@dataclass
class Reader:
    """Collects the problems of one file and the places of what was read."""

    file: str
    problems: list[Problem] = field(default_factory=list)
    positions: Positions = field(default_factory=dict)

    def problem(self, at: Mark, what: str, fix: str) -> None:
        self.problems.append(Problem(self.file, at.line, at.column, what, fix))

    def mapping(self, node: Node, shape: Shape) -> dict[str, Node] | None:
        """Return the entries of a mapping of known keys; unknown and missing keys are problems."""
        if not isinstance(node, Mapping):
            self.problem(node.at, f"{shape.title} must be a mapping, not {kind(node)}", _example(shape))
            return None
        for key in node.entries:
            if key not in shape.keys:
                fix = suggestion(key, shape.keys)
                self.problem(node.keys[key], f"unknown key `{key}` in {shape.title}", fix)
        missing = [k for k in shape.required if k not in node.entries]
        for key in missing:
            purpose = shape.keys[key][0].lower() + shape.keys[key][1:].rstrip(".")
            self.problem(node.at, f"{shape.title} has no `{key}`", f"add `{key}:` ({purpose})")
        return {k: v for k, v in node.entries.items() if k in shape.keys}

    def named(self, node: Node | None, title: str) -> Mapping | None:
        """Return a mapping of names that the owner chooses (tables, roles, users)."""
        if node is None or isinstance(node, Mapping):
            return node
        self.problem(node.at, f"{title} must be a mapping, not {kind(node)}", "write `name: ...` entries")
        return None

    def text(self, node: Node, what: str) -> str | None:
        """Return a text that is not empty and holds no reference to a secret."""
        if not isinstance(node, Scalar) or not node.text or scalars.is_null(node):
            found = "empty" if isinstance(node, Scalar) and not node.plain else kind(node)
            self.problem(node.at, f"{what} must be text, not {found}", f"write the {what} as text")
            return None
        if any(r in node.text for r in REFERENCE):
            what = f"a reference is not allowed in {what}"
            self.problem(node.at, what, "write the value; references work in `backend` only")
            return None
        return node.text

    def choice(self, node: Node, what: str, allowed: Iterable[str]) -> str | None:
        options = tuple(allowed)
        text = node.text if isinstance(node, Scalar) else ""
        if text in options:
            return text
        self.problem(node.at, f"{what} cannot be {kind(node)}", f"write one of {', '.join(options)}")
        return None

    def flag(self, node: Node, what: str) -> bool | None:
        found = scalars.flag(node) if isinstance(node, Scalar) else None
        if found is None:
            self.problem(node.at, f"`{what}` must be true or false, not {kind(node)}", "write true or false")
        return found

    def integer(self, node: Node, what: str, lowest: int, highest: int) -> int | None:
        found = scalars.integer(node) if isinstance(node, Scalar) else None
        if found is None:
            self.problem(node.at, f"`{what}` must be a whole number, not {kind(node)}", f"write a number from {lowest}")
        elif not lowest <= found <= highest:
            where = f"write a number from {lowest} to {highest}"
            self.problem(node.at, f"`{what}` is out of range: {found}", where)
            return None
        return found

    def decimal(self, node: Node, what: str) -> Decimal | None:
        found = scalars.decimal(node) if isinstance(node, Scalar) else None
        if found is None:
            fix = "write a plain decimal number, as in 0.5 or 1e-6"
            self.problem(node.at, f"`{what}` must be a number, not {kind(node)}", fix)
        return found

    def items(self, node: Node, what: str) -> tuple[Node, ...] | None:
        if isinstance(node, Sequence):
            return node.items
        self.problem(node.at, f"`{what}` must be a list, not {kind(node)}", f"write `{what}: [...]`")
        return None


def _example(shape: Shape) -> str:
    keys = ", ".join(f"{k}: ..." for k in (shape.required or tuple(shape.keys)[:2]))
    return f"write `{{ {keys} }}`"
