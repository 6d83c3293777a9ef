"""The commands `policy password`, `policy grants` and `policy schema`: what a policy needs beside itself.

Knows: the terminal. Must not know: how verifiers, grants and the schema are made.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpproxy.errors import OperatorError
from dpproxy.policy.grants import grants as grants_text
from dpproxy.policy.load import load_file
from dpproxy.policy.model import PostgresBackend
from dpproxy.policy.password import make_verifier
from dpproxy.policy.schema import text as schema_text


def password() -> None:
    """Ask for a password and print the verifier to write into a policy."""
    word = typer.prompt("password", hide_input=True, confirmation_prompt=True) if sys.stdin.isatty() else input()
    try:
        print(make_verifier(word))
    except ValueError as error:
        raise OperatorError(str(error)) from None


def grants(file: Annotated[Path, typer.Argument(help="a policy whose backend is a PostgreSQL")]) -> None:
    """Print the GRANTs that the backend's role needs, as SQL: the columns of the policy and nothing else."""
    rules = load_file(file).policy
    if not isinstance(rules.backend, PostgresBackend):
        raise OperatorError(f"{file}: the backend is no PostgreSQL, there is nothing to grant")
    print(grants_text(rules, rules.backend), end="")


def schema() -> None:
    """Print the JSON Schema of policy files, for editors."""
    print(schema_text(), end="")
