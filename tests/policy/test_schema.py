"""The JSON Schema: committed as generated, accepting what the loader accepts, and closed like it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dpproxy.policy import reference, scalars
from dpproxy.policy.tree import Mapping, Node, Scalar, parse

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = reference.json_schema()


def as_json(node: Node) -> Any:
    """A tree as an editor's YAML 1.2 reader sees it: dates are text."""
    if isinstance(node, Mapping):
        return {k: as_json(v) for k, v in node.entries.items()}
    if not isinstance(node, Scalar):
        return [as_json(i) for i in node.items]
    number = scalars.decimal(node)
    if number is not None:
        return int(number) if number == number.to_integral_value() else float(number)
    flag = scalars.flag(node)
    return flag if flag is not None else None if scalars.is_null(node) else node.text


TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "integer": int,
    "number": (int, float),
}


def typed(value: Any, names: str | list[str]) -> bool:
    wanted = [names] if isinstance(names, str) else names
    return any(isinstance(value, TYPES[n]) and (n == "boolean" or not isinstance(value, bool)) for n in wanted)


def valid(value: Any, part: dict[str, Any]) -> bool:
    """The few words of JSON Schema that ours uses; an unknown one fails loudly."""
    for word, rule in part.items():
        match word:
            case "$schema" | "title" | "description" | "examples" | "$defs":
                ok = True
            case "$ref":
                ok = valid(value, SCHEMA["$defs"][rule.rsplit("/", 1)[1]])
            case "type":
                ok = typed(value, rule)
            case "const":
                ok = value == rule
            case "enum":
                ok = value in rule
            case "anyOf":
                ok = any(valid(value, r) for r in rule)
            case "required":
                ok = isinstance(value, dict) and all(k in value for k in rule)
            case "properties":
                ok = isinstance(value, dict) and all(valid(value[k], r) for k, r in rule.items() if k in value)
            case "additionalProperties":
                extra = set(value) - set(part.get("properties", {})) if isinstance(value, dict) else set()
                ok = not extra if rule is False else all(valid(value[k], rule) for k in extra)
            case "items":
                ok = isinstance(value, list) and all(valid(v, rule) for v in value)
            case "minItems" | "maxItems":
                ok = isinstance(value, list) and (len(value) >= rule if word == "minItems" else len(value) <= rule)
            case "uniqueItems":
                ok = isinstance(value, list) and len(set(map(repr, value))) == len(value)
            case "minLength":
                ok = isinstance(value, str) and len(value) >= rule
            case "pattern":
                ok = isinstance(value, str) and re.search(rule, value) is not None
            case "minimum":
                ok = value >= rule
            case "exclusiveMinimum":
                ok = value > rule
            case "exclusiveMaximum":
                ok = value < rule
            case _:
                raise AssertionError(word)
        if not ok:
            return False
    return True


def files() -> list[Path]:
    return [
        ROOT / "policies/shop.yaml",
        ROOT / "tests/policy/good.yaml",
        *sorted((ROOT / "tests/corpus/policies").glob("*.yaml")),
    ]


@pytest.mark.parametrize("file", files(), ids=lambda f: f.stem)
def test_policies_are_valid(file: Path) -> None:
    text = file.read_text().replace("VERIFIER", "SCRAM-SHA-256$4096:AA==$AA==:AA==")
    assert valid(as_json(parse(text, "f")), SCHEMA)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("version: 1", "version: 2"),
        ("mechanism: laplace", "mechanism: exact"),
        ("mechanism: laplace", "mechanisms: laplace"),
        ("email: hidden", "email: secret"),
        ("public: true", "public: yes"),
        ("[1920, 2010]", "[1920]"),
        ("[1920, 2010]", "[1920, 2024-01-01]"),
        ("groups: 5", "groups: 0"),
        ("epsilon: 100,", "epsilon: 0,"),
        ("VERIFIER", "hunter2"),
        ("via: orders.order_id", "via: order_id"),
        ("dataset: shop\n", ""),
    ],
)
def test_damaged_policies_are_not(old: str, new: str) -> None:
    text = (ROOT / "tests/policy/good.yaml").read_text()
    assert old in text
    damaged = text.replace(old, new).replace("VERIFIER", "SCRAM-SHA-256$4096:AA==$AA==:AA==")
    assert not valid(as_json(parse(damaged, "f")), SCHEMA)
