"""The command line: serve, connect, look at budgets, work on policies.

Knows: the terminal, where commands are. Must not know: how anything is done. Standard output is for what was asked, standard
error for everything else. A new command is a file of its own and one line here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from dpproxy import __version__
from dpproxy.errors import OperatorError
from dpproxy.facade.account import find_binaries
from dpproxy.late_commands import register

# The commands under `dpproxy policy`, registered in one place.
#
# Knows: which file of this room is which command. Must not know: what a command does. A new command is a file of its own and
# one line here.


POLICY_COMMANDS = {
    "init": ("dpproxy.authoring.init_command:init", "Draft a policy from names, types, keys and constraints."),
    "check": ("dpproxy.authoring.check_command:check", "Print every problem, with its place and what to write instead."),
    "bounds": ("dpproxy.authoring.bounds_choices:bounds", "Say what each choice of bounds keeps, and how much noise it has."),
    "test": ("dpproxy.authoring.commands:run_tests", "Hold what a policy says of questions against what tests expect."),
    "diff": ("dpproxy.authoring.commands:diff", "Say what one policy exposes more, or less, than another."),
    "simulate": ("dpproxy.authoring.simulation:simulate", "Ask a year of questions over invented rows."),
    "explain": ("dpproxy.authoring.commands:explain", "Say in plain words what a role can learn."),
    "sample": ("dpproxy.authoring.commands:sample", "Write a small database of the policy's shape, of invented rows."),
    "from-dbt": ("dpproxy.authoring.dbt:from_dbt", "Write the policy that a dbt project's schema files describe."),
    "password": ("dpproxy.authoring.commands:password", "Ask for a password and print the verifier for a policy."),
    "grants": ("dpproxy.authoring.commands:grants", "Print the GRANTs that the backend's role needs, as SQL."),
    "schema": ("dpproxy.authoring.commands:schema", "Print the JSON Schema of policy files, for editors."),
}
"""By name the place of each command, and what it says of itself in the list."""

policy_app = typer.Typer(no_args_is_help=True, help="Draft, check, test, compare, simulate and explain policies.")
register(policy_app, POLICY_COMMANDS)


commands = typer.Typer(
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, pretty_exceptions_show_locals=False
)
COMMANDS = {
    "serve": ("dpproxy.serve.serve_command:serve_app", "Serve one database per policy file until SIGTERM or Ctrl-C."),
    "budget": ("dpproxy.bookkeeping:budget_app", "What is spent and left; grant more."),
    "admin": ("dpproxy.admin:admin_app", "Look at a proxy while it serves, and steer it."),
    "prepare": ("dpproxy.prepare:prepare", "Make the prepared copy of a dataset, from which answers come faster."),
    "collect": ("dpproxy.collector.collect_command:collect_app", "Take reports that devices randomised, and load them."),
    "audit": ("dpproxy.audit.audit_command:audit", "Hold what is promised against what happens, on invented people."),
    "ledger": ("dpproxy.bookkeeping:ledger_app", "Verify, show, export, back up and repair the ledger."),
}
"""By name the place of each command, and the first sentence of its help."""

register(commands, COMMANDS)
commands.add_typer(policy_app, name="policy")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dpproxy {__version__}")
        raise typer.Exit


@commands.callback()
def main(
    version: Annotated[bool, typer.Option("--version", help="print the version", callback=_print_version, is_eager=True)] = False,
) -> None:
    """A PostgreSQL that answers questions about people with differential privacy: serve, connect, budgets, policies."""


def app() -> None:
    """Run the command line. Errors the operator can mend are one line each, without a traceback."""
    try:
        commands()
    except (OperatorError, OSError) as error:  # a port in use, a folder that cannot be made, a full disk
        sys.exit(f"dpproxy: {error}")


@commands.command(context_settings={"ignore_unknown_options": True})
def psql(
    arguments: Annotated[list[str] | None, typer.Argument(help="passed to psql, for example a connection string")] = None,
) -> None:
    """Run the psql that comes with the facade; by default it connects to 127.0.0.1:6432."""
    program = find_binaries().program("psql")
    if not Path(program).is_file():
        raise OperatorError(f"there is no psql beside {program}")
    environment = {"PGHOST": "127.0.0.1", "PGPORT": "6432", **os.environ}
    os.execve(program, [program, *(arguments or [])], environment)


if __name__ == "__main__":
    app()
