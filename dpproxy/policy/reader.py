"""Reading a field: a node of the tree and what it should be, to a value or a recorded problem.

Knows: kinds of fields and how to word what is wrong with one. Must not know: which fields a policy has. Every method
returns None after recording a problem, so that reading goes on and all problems are reported at once; a caller that
sees None skips what depends on it and says nothing more.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal

from dpproxy.policy import scalars
from dpproxy.policy.key_types import Shape
from dpproxy.policy.policy_keys import INCLUDED, OF_REPORTS, PARTS, POLICY
from dpproxy.policy.problems import Code, Mark, Problem, suggestion
from dpproxy.policy.tree import Mapping, Node, Scalar, Sequence

Path = tuple[str, ...]
Positions = dict[Path, Mark]
_WORDS = {"yes": "true", "on": "true", "y": "true", "1": "true", "no": "false", "off": "false", "n": "false", "0": "false"}
"""What other readers of YAML, and people, write for true and false."""
_ALIASES = {
    **dict.fromkeys(("min", "max", "lower", "upper", "lowest", "highest", "bounds", "clip"), "range"),
    **dict.fromkeys(("window", "period", "per", "interval"), "every"),
    **dict.fromkeys(("domain", "enum", "options", "categories", "allowed"), "values"),
    **dict.fromkeys(("eps", "budget_epsilon"), "epsilon"),
    "units": "unprotected",
}
"""What keys are called elsewhere."""
_FEW = ("k", "k_anonymity", "min_count", "min_group", "min_group_size", "threshold")
_OFF = ("noise", "bypass", "exact", "raw", "superuser", "admin", "private", "dp")
"""Keys by which somebody means to switch protection off for a role."""
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

    def problem(self, at: Mark, what: str, fix: str, code: Code) -> None:
        self.problems.append(at.problem(self.file, what, fix, code))

    def mapping(self, node: Node, shape: Shape, *, units: bool = True) -> dict[str, Node] | None:
        """Return the entries of a mapping of known keys; unknown and missing keys are problems. `units`: whether a table of the
        policy has a unit."""
        required = shape.required_with_unit if units else shape.required
        if not isinstance(node, Mapping):
            self.problem(node.at, f"{shape.title} must be a mapping, not {kind(node)}", _example(shape), "wrong-type")
            return None
        meant: set[str] = set()
        for key in node.entries:
            if key not in shape.keys:
                fix = _misplaced(key, shape) or suggestion(key, shape.keys)
                self.problem(node.keys[key], f"unknown key `{key}` in {shape.title}", fix, "unknown-key")
                meant.update(k for k in required if fix == f"did you mean `{k}`?")
        missing = [k for k in required if k not in node.entries and k not in meant]
        for key in missing:
            purpose = shape.keys[key].purpose[0].lower() + shape.keys[key].purpose[1:].rstrip(".")
            self.problem(node.at, f"{shape.title} has no `{key}`", f"add `{key}:` ({purpose})", "missing-key")
        return {k: v for k, v in node.entries.items() if k in shape.keys}

    def named(self, node: Node | None, title: str) -> Mapping | None:
        """Return a mapping of names that the owner chooses (tables, roles, users)."""
        if node is None or isinstance(node, Mapping):
            return node
        self.problem(node.at, f"{title} must be a mapping, not {kind(node)}", "write `name: ...` entries", "wrong-type")
        return None

    def text(self, node: Node, what: str) -> str | None:
        """Return a text that is not empty and holds no reference to a secret."""
        if not isinstance(node, Scalar) or not node.text or scalars.is_null(node):
            found = "empty" if isinstance(node, Scalar) and not node.plain else kind(node)
            self.problem(node.at, f"{what} must be text, not {found}", f"write the {what} as text", "wrong-type")
            return None
        if any(r in node.text for r in REFERENCE):
            what = f"a reference is not allowed in {what}"
            self.problem(node.at, what, "write the value; references work in `backend` only", "secret-reference")
            return None
        return node.text

    def choice(self, node: Node, what: str, allowed: Iterable[str]) -> str | None:
        options = tuple(allowed)
        text = node.text if isinstance(node, Scalar) else ""
        if text in options:
            return text
        near = difflib.get_close_matches(text.lower(), options, n=1) if text.isalpha() else []
        fix = f"did you mean `{near[0]}`?" if near else f"write one of {', '.join(options)}"
        self.problem(node.at, f"{what} cannot be {kind(node)}", fix, "wrong-type")
        return None

    def flag(self, node: Node, what: str) -> bool | None:
        found = scalars.flag(node) if isinstance(node, Scalar) else None
        if found is None:
            meant = _WORDS.get(node.text.lower(), "true or false") if isinstance(node, Scalar) else "true or false"
            self.problem(node.at, f"`{what}` must be true or false, not {kind(node)}", f"write {meant}", "wrong-type")
        return found

    def integer(self, node: Node, what: str, lowest: int, highest: int) -> int | None:
        found = scalars.integer(node) if isinstance(node, Scalar) else None
        if found is None:
            whole = isinstance(node, Scalar) and "%" not in node.text
            fix = (_unquoted(node) if whole else None) or f"write a number from {lowest}"
            self.problem(node.at, f"`{what}` must be a whole number, not {kind(node)}", fix, "wrong-type")
        elif not lowest <= found <= highest:
            where = f"write a number from {lowest} to {highest}"
            self.problem(node.at, f"`{what}` is out of range: {found}", where, "out-of-range")
            return None
        return found

    def decimal(self, node: Node, what: str) -> Decimal | None:
        found = scalars.decimal(node) if isinstance(node, Scalar) else None
        if found is None:
            fix = _unquoted(node) or "write a plain decimal number, as in 0.5 or 1e-6"
            self.problem(node.at, f"`{what}` must be a number, not {kind(node)}", fix, "wrong-type")
        return found

    def items(self, node: Node, what: str) -> tuple[Node, ...] | None:
        if isinstance(node, Sequence):
            return node.items
        self.problem(node.at, f"`{what}` must be a list, not {kind(node)}", f"write `{what}: [...]`", "wrong-type")
        return None


def _misplaced(key: str, shape: Shape) -> str | None:
    """A key that exists elsewhere in the format is most often a line with the wrong indentation; a number, half of a decimal."""
    if key.isdigit():
        return "write a decimal point, as in 0.5: a comma begins another key"
    if _ALIASES.get(key.lower()) in shape.keys:
        return f"write `{_ALIASES[key.lower()]}`: {shape.keys[_ALIASES[key.lower()]].purpose}"
    if key.lower() in _FEW and "epsilon" in shape.keys:
        return "write `min_units: 10` in the role: groups of fewer people are not shown"
    if key.lower() in _OFF and "query" in shape.keys:
        return "remove it: nothing is answered without noise and a budget; `public: true` shows a table that is about nobody"
    if difflib.get_close_matches(key, shape.keys, n=1, cutoff=0.8):
        return None
    homes = [other.title for other in PARTS if key in other.keys and other is not shape and other not in OF_REPORTS]
    homes = homes or [other.title for other in OF_REPORTS if key in other.keys and other is not shape][:1]
    if shape is INCLUDED and key in POLICY.keys:
        return f"write `{key}` in the policy's own file"
    return f"`{key}` belongs to {' or '.join(homes)}: indent it there" if homes else None


def _unquoted(node: Node) -> str | None:
    """What to write for a number that has been put in quotes, or is spelled as in another language."""
    if not isinstance(node, Scalar):
        return None
    if re.fullmatch(r"[0-9]+,[0-9]+", node.text):
        return f"write a decimal point: {node.text.replace(',', '.')}"
    if re.fullmatch(r"[0-9.]+ ?%", node.text):
        return "write a part of 1, as in 0.05 for 5 %"
    if scalars.is_ambiguous(node) and not node.text.startswith("."):
        return "write the number without leading zeros, underscores or letters: readers of YAML differ on those"
    if node.plain:
        return None
    return f"remove the quotes: {node.text}" if scalars.decimal(Scalar(node.text, True, node.at)) is not None else None


def _example(shape: Shape) -> str:
    if "public" in shape.keys and "unit" in shape.keys:
        return "write `{ unit: column, columns: ... }`, or `{ public: true }` if it holds nothing about people"
    keys = ", ".join(f"{k}: ..." for k in (shape.required_with_unit or tuple(shape.keys)[:2]))
    return f"write `{{ {keys} }}`"
