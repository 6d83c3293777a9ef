"""Options that do not go together are told before anything starts."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from dpproxy.cli import commands
from dpproxy.errors import OperatorError
from dpproxy.serve import serve_command


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--listen", "nonsense"], "`nonsense` is not HOST:PORT"),
        (["--listen", "host:70000"], "is not HOST:PORT"),
        (["--draft", "--listen", "0.0.0.0:0"], "--draft serves this machine alone"),
        (["--require-tls"], "--require-tls needs --tls-cert and --tls-key"),
        (["--tls-cert", "a.pem"], "TLS needs both --tls-cert and --tls-key"),
        (["--tls-client-ca", "a.pem"], "TLS needs both"),
        (["--console", "0.0.0.0:0"], "say --tls-cert and --tls-key"),
        (["--tls-cert", "a", "--tls-key", "b", "--tls-min", "1.1"], "--tls-min is 1.2 or 1.3"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], says: str) -> None:
    with pytest.raises(OperatorError, match=says):
        CliRunner().invoke(commands, ["serve", "town.yaml", *options], catch_exceptions=False)


def test_the_log_starts_when_all_options_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(serve_command, "start_log", lambda form, level: started.append(form))
    monkeypatch.setattr(serve_command, "run", lambda serving: (started.append("run"), serving.close()))
    with pytest.raises(OperatorError):
        CliRunner().invoke(commands, ["serve", "town.yaml", "--require-tls"], catch_exceptions=False)
    assert started == []
    CliRunner().invoke(commands, ["serve", "town.yaml"], catch_exceptions=False)
    assert started == ["json", "run"]
