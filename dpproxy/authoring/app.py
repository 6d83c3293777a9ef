"""The commands under `dpproxy policy`, registered in one place.

Knows: which file of this room is which command. Must not know: what a command does. A new command is a file of its own and one
line here.
"""

from __future__ import annotations

import typer

from dpproxy.late_commands import register

COMMANDS = {
    "init": ("dpproxy.authoring.init_command:init", "Draft a policy from names, types, keys and constraints."),
    "check": ("dpproxy.authoring.check_command:check", "Print every problem, with its place and what to write instead."),
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
register(policy_app, COMMANDS)
