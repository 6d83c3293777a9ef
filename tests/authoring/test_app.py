"""Each command under `dpproxy policy` is there, and is the function of its name."""

from __future__ import annotations

from typer.main import get_command

from dpproxy.cli import POLICY_COMMANDS, policy_app


def test_commands() -> None:
    there = get_command(policy_app).commands  # type: ignore[attr-defined]
    assert list(there) == list(POLICY_COMMANDS)
    assert {"init", "check", "test", "diff", "simulate", "explain", "sample", "from-dbt"} <= set(there)
    for name, (place, _) in POLICY_COMMANDS.items():
        assert place.rpartition(":")[2].removeprefix("run_").rstrip("s") == name.replace("-", "_").rstrip("s")
