"""The policy format as JSON Schema, for completion and checking in editors.

Knows: the keys of `policy.shapes` and a type for each. Must not know: files. The schema is a convenience: it says less
than the loader (no paths to the unit, no contradictions), and the loader never reads it. It is committed as
dpproxy.schema.json; `python -m dpproxy.policy.schema > dpproxy.schema.json` writes it anew.
"""

from __future__ import annotations

import json
from typing import Any, get_args

from dpproxy.amounts import Window
from dpproxy.policy import shapes
from dpproxy.policy.key_notes import KEY_NOTES
from dpproxy.policy.model import PARAMETER_BYTES, AccelerateMode, Mechanism, Previews
from dpproxy.policy.shapes import Shape

Fragment = dict[str, Any]

TEXT: Fragment = {"type": "string", "minLength": 1}
FLAG: Fragment = {"type": "boolean"}
POSITIVE: Fragment = {"type": "number", "exclusiveMinimum": 0}
COUNT: Fragment = {"type": "integer", "minimum": 1}
PERCENTS: Fragment = {"type": "array", "items": {"type": "integer", "minimum": 1, "maximum": 100}, "uniqueItems": True}
SHARE: Fragment = {"type": "number", "minimum": 0, "exclusiveMaximum": 1}
VALUE: Fragment = {"type": ["string", "number", "boolean"]}
SIZE: Fragment = {"type": "string", "pattern": "^[0-9]+([.][0-9]+)? ?([KMGTkmgt][Ii]?[Bb]|bytes)$"}
_LENGTH = r"[-+]?[0-9]{1,9} +([Ww]eek|[Dd]ay|[Hh]our|[Mm]in(ute)?|[Ss]ec(ond)?)s?"
INTERVAL: Fragment = {"type": "string", "pattern": rf"^{_LENGTH}( {_LENGTH})*$"}
DATE: Fragment = {"type": "string", "pattern": r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([ T].+)?$"}
DURATION: Fragment = {"type": "string", "pattern": "^[1-9][0-9]*(ms|s|m|h|d|w)$"}
PREVIEWS: Fragment = {"enum": list(get_args(Previews))}
ACCELERATE_MODE: Fragment = {"enum": list(get_args(AccelerateMode))}
VERIFIER: Fragment = {"type": "string", "pattern": r"^SCRAM-SHA-256\$[0-9]+:[^$]+\$[^:]+:.+$"}
TABLE_COLUMN: Fragment = {"type": "string", "pattern": r"^.+\..+$"}


def _ref(name: str) -> Fragment:
    return {"$ref": f"#/$defs/{name}"}


def _named(name: str) -> Fragment:
    return {"type": "object", "additionalProperties": _ref(name)}


def _pair(item: Fragment) -> Fragment:
    return {"type": "array", "items": item, "minItems": 2, "maxItems": 2}


_TYPES: dict[str, tuple[Shape, dict[str, Fragment]]] = {
    "policy": (
        shapes.POLICY,
        {
            "version": {"const": 1},
            "dataset": TEXT,
            "include": {"type": "array", "items": TEXT},
            "backend": _ref("backend"),
            "privacy_unit": _ref("privacy_unit"),
            "budget": _ref("budget"),
            "tables": _named("table"),
            "views": {"type": "object", "additionalProperties": TEXT},
            "roles": _named("role"),
            "users": _named("user"),
            "mechanism": {"enum": list(get_args(Mechanism))},
            "previews": PREVIEWS,
            "reuse_answers": {"anyOf": [{"const": "off"}, _ref("reuse")]},
            "timing": _ref("timing"),
            "accelerate": {"anyOf": [ACCELERATE_MODE, _ref("accelerate")]},
        },
    ),
    "backend": (
        shapes.BACKEND,
        {
            "duckdb": TEXT,
            "memory_limit": TEXT,
            "threads": COUNT,
            "postgres": TEXT,
            "password": TEXT,
            "spark": TEXT,
            "catalog": TEXT,
            "token": TEXT,
        },
    ),
    "privacy_unit": (shapes.PRIVACY_UNIT, {"name": TEXT, "key": TABLE_COLUMN}),
    "budget": (
        shapes.BUDGET,
        {"epsilon": POSITIVE, "delta": SHARE, "every": {"enum": list(get_args(Window))}, "warn": PERCENTS},
    ),
    "table": (
        shapes.TABLE,
        {
            "public": FLAG,
            "unit": {"anyOf": [TEXT, _ref("via")]},
            "unique": FLAG,
            "bounds": {"anyOf": [_ref("bounds"), _ref("whole_bounds")]},
            "columns": _named("column"),
        },
    ),
    "via": (shapes.VIA, {"via": TABLE_COLUMN, "column": TEXT}),
    "bounds": (shapes.BOUNDS, {"rows_per_group": COUNT, "groups": {"anyOf": [COUNT, {"const": "all"}]}}),
    "whole_bounds": (shapes.WHOLE_BOUNDS, {"rows": COUNT, "groups": {"anyOf": [COUNT, {"const": "all"}]}}),
    "plain_column": (
        shapes.COLUMN,
        {
            "values": {"type": "array", "items": VALUE, "minItems": 1, "uniqueItems": True},
            "nulls": FLAG,
            "range": {"anyOf": [_pair({"type": "number"}), _pair(DATE), _pair(INTERVAL)]},
            "resolution": POSITIVE,
            "length": COUNT,
            "references": TABLE_COLUMN,
        },
    ),
    "role": (
        shapes.ROLE,
        {
            "budget": _ref("budget"),
            "query": _ref("query"),
            "tables": {"type": "array", "items": TEXT},
            "min_units": COUNT,
            "temp_tables": FLAG,
            "previews": PREVIEWS,
        },
    ),
    "query": (
        shapes.QUERY,
        {
            "epsilon": POSITIVE,
            "max_epsilon": POSITIVE,
            "delta": SHARE,
            "measure_bounds": SHARE,
            "parameter_bytes": COUNT | {"maximum": PARAMETER_BYTES},
        },
    ),
    "user": (shapes.USER, {"role": TEXT, "password": VERIFIER, "budget": _ref("budget")}),
    "reuse": (shapes.REUSE, {"for": DURATION, "epoch": TEXT}),
    "timing": (shapes.TIMING, {"quantum": {"anyOf": [{"const": "off"}, DURATION]}}),
    "accelerate": (
        shapes.ACCELERATE,
        {"mode": ACCELERATE_MODE, "disk": SIZE, "folder": TEXT, "queries": {"type": "array", "items": TEXT}},
    ),
}


def json_schema() -> Fragment:
    """Return the schema (draft 2020-12) of a policy file. Raises KeyError when a key of `shapes` has no type here."""
    objects = {name: _object(name, shape, types) for name, (shape, types) in _TYPES.items()}
    root = objects.pop("policy")
    objects["column"] = {"anyOf": [{"enum": ["unit", "key", "hidden"]}, _ref("plain_column")]}
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "dpproxy policy"}
    return {**head, **root, "$defs": dict(sorted(objects.items()))}


def typed_shapes() -> dict[str, tuple[Shape, dict[str, Fragment]]]:
    """Return every part of the format with its keys and their types, by the part's name in the schema."""
    return _TYPES


def _object(name: str, shape: Shape, types: dict[str, Fragment]) -> Fragment:
    notes = KEY_NOTES[name]
    properties = {
        key: {"description": f"{purpose} {notes[key].effect}", "examples": [notes[key].example], **types[key]}
        for key, purpose in shape.keys.items()
    }
    return {
        "type": "object",
        "properties": properties,
        "required": list(shape.required),
        "additionalProperties": False,
    }


def text() -> str:
    """Return the schema as it is committed."""
    return json.dumps(json_schema(), indent=2) + "\n"


if __name__ == "__main__":
    print(text(), end="")
