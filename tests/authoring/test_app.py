"""Each command under `dpproxy policy` is there, once, and says what it does."""

from __future__ import annotations

from dpproxy.authoring.app import policy_app


def test_commands() -> None:
    names = [command.name or command.callback.__name__ for command in policy_app.registered_commands if command.callback]
    assert len(set(names)) == len(names)
    assert {"init", "check", "test", "diff", "sample"} <= set(names)
    assert all(command.callback and command.callback.__doc__ for command in policy_app.registered_commands)
