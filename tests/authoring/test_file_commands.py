"""Verifiers, grants and the schema, as the commands print them."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpproxy.cli import policy_app
from dpproxy.errors import OperatorError
from dpproxy.policy.people import parse_verifier
from dpproxy.policy.reference import schema_text

RUN = CliRunner()


def test_password_and_schema() -> None:
    assert parse_verifier(RUN.invoke(policy_app, ["password"], input="sesame\n").stdout.strip())
    assert RUN.invoke(policy_app, ["schema"]).stdout == schema_text()
    with pytest.raises(OperatorError):
        RUN.invoke(policy_app, ["password"], input="\n", catch_exceptions=False)


def test_grants(town: Path, tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match="there is nothing to grant"):
        RUN.invoke(policy_app, ["grants", str(town)], catch_exceptions=False)
    served = tmp_path / "served.yaml"
    served.write_text(town.read_text().replace("duckdb: town.duckdb", 'postgres: "postgresql://reader@host/town"'))
    assert (
        'GRANT SELECT ("id", "income", "job", "region") ON "public"."people"'
        in RUN.invoke(policy_app, ["grants", str(served)]).stdout
    )
