"""The command `policy from-dbt`: a policy of a dbt project's schema files.

Knows: files, the terminal. Must not know: what a manifest means.
"""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError

from dpproxy.authoring.dbt import DbtError, Project, compiled, read_project
from dpproxy.policy.load import read_text
from dpproxy.policy.problems import PolicyError, Problem

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
