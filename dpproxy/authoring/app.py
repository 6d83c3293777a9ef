"""The commands under `dpproxy policy`, registered in one place.

Knows: which file of this room is which command. Must not know: what a command does. A new command is a file of its own and one
line here.
"""

from __future__ import annotations

import typer

from dpproxy.authoring import commands
from dpproxy.authoring.check_command import check
from dpproxy.authoring.dbt_command import from_dbt
from dpproxy.authoring.explain_command import explain
from dpproxy.authoring.init_command import init
from dpproxy.authoring.simulate_command import simulate

policy_app = typer.Typer(no_args_is_help=True, help="Draft, check, sample and explain policies; passwords; the schema.")
policy_app.command()(init)
policy_app.command()(check)
policy_app.command()(explain)
policy_app.command("test")(commands.run_tests)
policy_app.command("diff")(commands.diff)
policy_app.command("sample")(commands.sample)
policy_app.command("simulate")(simulate)
policy_app.command("from-dbt")(from_dbt)
