"""A dbt project as tables of a policy: what its schema files say under `meta: dpproxy`, from the project's manifest.

Knows: dbt's manifest (schema versions 9 to 12), the keys of policies. Must not know: data, files. Models, seeds, snapshots and
sources that say something of dpproxy become tables; no others are shown. Values that an `accepted_values` test holds a column to
are its declared values, where `meta` names none. Who may ask, and how much, is no dbt project's business: it comes from a policy
without `tables`. There a role may name `group:finance` among its tables, for all that belong to dbt's group of that name.

    models:
      - name: orders
        group: finance
        meta: { dpproxy: { unit: customer_id, bounds: { rows: 50 } } }
        columns:
          - { name: customer_id, meta: { dpproxy: unit } }
          - { name: amount, meta: { dpproxy: { range: [0, 1000], resolution: 0.01 } } }
          - { name: status, meta: { dpproxy: {} }, tests: [{ accepted_values: { values: [open, paid] } }] }
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from dpproxy.errors import OperatorError
from dpproxy.policy.load import read_text
from dpproxy.policy.problems import PolicyError, Problem

KINDS = ("model", "seed", "snapshot", "source")
DEFAULT_SCHEMAS = ("public", "main")
GROUP = "group:"

Entry = dict[str, Any]


class DbtError(OperatorError):
    """A manifest and its policy cannot be joined to one policy."""


@dataclass
class Project:
    """A project is what a manifest says of tables. `tables`: by name, as a policy has them; `groups`: the tables of each of dbt's
    groups; `origins`: for comments, where a table comes from."""

    tables: dict[str, Entry] = field(default_factory=dict)
    groups: dict[str, list[str]] = field(default_factory=dict)
    origins: dict[str, str] = field(default_factory=dict)


def read_project(manifest: Mapping[str, Any]) -> Project:
    """Return the tables that a manifest speaks of. Raises DbtError when it is no manifest, or says what no policy can."""
    version = str(manifest.get("metadata", {}).get("dbt_schema_version", ""))
    if "/manifest/" not in version:
        raise DbtError("this is no manifest of dbt: run `dbt parse` or `dbt compile`, and name its target folder")
    accepted = _accepted_values(manifest)
    project = Project()
    for id, node in sorted(_nodes(manifest)):
        told = _meta(node)
        if told is None:
            continue
        name = _table_name(node)
        if not isinstance(told, dict):
            raise DbtError(f"{id}: `meta: dpproxy` of a table is a mapping, as in {{ unit: customer_id }} or {{ public: true }}")
        if name in project.tables:
            raise DbtError(f"{id}: there are two tables `{name}`: {project.origins[name]} is the other")
        project.tables[name] = told | _columns(id, node, accepted.get(id, {}))
        group = node.get("group") or node.get("config", {}).get("group")
        project.origins[name] = id + (f", group {group}" if group else "")
        if group:
            project.groups.setdefault(str(group), []).append(name)
    if not project.tables:
        raise DbtError("no model, seed, snapshot or source says anything under `meta: dpproxy`")
    return project


def _nodes(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Entry]]:
    for part in ("nodes", "sources"):
        for id, node in manifest.get(part, {}).items():
            if node.get("resource_type") in KINDS:
                yield id, node


def _meta(node: Mapping[str, Any]) -> Any:
    """What is said of dpproxy: dbt 1.10 moved `meta` into `config`, and keeps the old place."""
    for meta in (node.get("config", {}).get("meta"), node.get("meta")):
        if isinstance(meta, dict) and "dpproxy" in meta:
            return meta["dpproxy"]
    return None


def _table_name(node: Mapping[str, Any]) -> str:
    """A table as analysts write it: its schema stands before its name, unless it is a default one."""
    name = str(node.get("identifier") or node.get("alias") or node["name"])
    schema = str(node.get("schema") or "public")
    return name if schema in DEFAULT_SCHEMAS else f"{schema}.{name}"


def _columns(id: str, node: Mapping[str, Any], accepted: Mapping[str, list[Any]]) -> Entry:
    columns: Entry = {}
    for name, column in node.get("columns", {}).items():
        told = _meta(column)
        if told is None:
            continue
        if not isinstance(told, dict | str):
            raise DbtError(f"{id}: `meta: dpproxy` of column `{name}` is `unit`, `key`, `hidden` or a mapping")
        if isinstance(told, dict) and "values" not in told and "range" not in told and name in accepted:
            told = {**told, "values": accepted[name]}
        columns[str(name)] = told
    return {"columns": columns} if columns else {}


def _accepted_values(manifest: Mapping[str, Any]) -> dict[str, dict[str, list[Any]]]:
    """By table and column, the values that a test allows without a condition."""
    found: dict[str, dict[str, list[Any]]] = {}
    for node in manifest.get("nodes", {}).values():
        test = node.get("test_metadata") or {}
        if node.get("resource_type") != "test" or test.get("name") != "accepted_values" or node.get("config", {}).get("where"):
            continue
        arguments = test.get("kwargs", {})
        arguments = {**arguments, **arguments.get("arguments", {})}
        column, values = node.get("column_name") or arguments.get("column_name"), arguments.get("values")
        table = node.get("attached_node") or next(iter(node.get("depends_on", {}).get("nodes", [])), "")
        if column and isinstance(values, list):
            found.setdefault(table, {})[str(column)] = values
    return found


def compiled(base: Entry, project: Project) -> Entry:
    """Return a policy: what `base` says, with the project's tables. Raises DbtError for a group that nobody is in, and for tables
    in `base`."""
    if base.get("tables"):
        raise DbtError("the policy of a dbt project has no `tables`: they come from the project")
    policy = dict(base)
    policy["tables"] = dict(project.tables)
    roles = {}
    for name, role in (base.get("roles") or {}).items():
        listed = role.get("tables") if isinstance(role, dict) else None
        roles[name] = {**role, "tables": _expanded(listed, project)} if isinstance(listed, list) else role
    return policy | ({"roles": roles} if roles else {})


def _expanded(listed: list[Any], project: Project) -> list[Any]:
    found: list[Any] = []
    for entry in listed:
        if not str(entry).startswith(GROUP):
            found.append(entry)
            continue
        group = str(entry)[len(GROUP) :]
        if group not in project.groups:
            known = ", ".join(f"`{name}`" for name in sorted(project.groups)) or "none"
            raise DbtError(f"no table of the project is in dbt's group `{group}`; groups with tables: {known}")
        found += project.groups[group]
    return list(dict.fromkeys(found))


# The command `policy from-dbt`: a policy of a dbt project's schema files.
#
# Knows: files, the terminal. Must not know: what a manifest means.


HEADER = """# Made by `dpproxy policy from-dbt`: tables from the schema files of a dbt project, everything else from {base}.
# Change it there, and make this file again.
"""


def from_dbt(
    target: Annotated[Path, typer.Argument(help="dbt's target folder, or a manifest.json")],
    base: Annotated[Path, typer.Option(help="a policy without `tables`: dataset, backend, privacy unit, budget, roles, users")],
    out: Annotated[Path | None, typer.Option(help="write the policy here; default: standard output")] = None,
) -> None:
    """Write the policy that a dbt project's schema files describe under `meta: dpproxy`."""
    path = target / "manifest.json" if target.is_dir() else target
    project = _project(path)
    text = policy_text(_base(base), project, base.name)
    read_text(text, str(out or "policy"), (out or base).parent)  # every problem is told before anything is written
    if out is None:
        sys.stdout.write(text)
    else:
        out.write_text(text, encoding="utf-8")
        print(f"{out}: {len(project.tables)} tables")


def policy_text(base: CommentedMap, project: Project, name: str) -> str:
    """Write a policy. Raises PolicyError when base and project do not make one."""
    try:
        policy = CommentedMap(compiled(base, project))
    except DbtError as error:
        raise PolicyError(
            [
                Problem(
                    name, 1, 1, str(error), "see `dpproxy policy from-dbt --help`, and the project's schema files", "missing-key"
                )
            ]
        ) from None
    tables = CommentedMap(policy["tables"])
    for table, origin in project.origins.items():
        tables.yaml_set_comment_before_after_key(table, before=origin, indent=2)
    policy["tables"] = tables
    yaml, written = YAML(), io.StringIO()
    yaml.width = 120
    yaml.dump(policy, written)
    return HEADER.format(base=name) + written.getvalue()


def _project(path: Path) -> Project:
    try:
        return read_project(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, DbtError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        fix = "run `dbt parse` in the project, and name its target folder"
        raise PolicyError([Problem(str(path), 1, 1, f"cannot be read: {reason}", fix, "unreadable-file")]) from None


def _base(path: Path) -> CommentedMap:
    try:
        found = YAML().load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, YAMLError) as error:
        raise PolicyError(
            [Problem(str(path), 1, 1, f"cannot be read: {error}", "name a policy without `tables`", "unreadable-file")]
        ) from None
    if not isinstance(found, CommentedMap):
        raise PolicyError([Problem(str(path), 1, 1, "is no policy", "start with `version: 1`", "version")])
    return found
