"""Sessions on Spark Connect: the address with its token, and what may be said of an error."""

from __future__ import annotations

import logging

import pytest

from tests.worlds import spark_servers

pytest.importorskip("pyspark", reason=spark_servers.MISSING)

import grpc
from pyspark.errors import AnalysisException
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from dpproxy.backends import spark_session
from dpproxy.policy.model import SparkBackend


@pytest.mark.parametrize(
    ("url", "token", "address"),
    [
        ("sc://host:15002", None, "sc://host:15002"),
        ("sc://host:15002", "t", "sc://host:15002/;token=t"),
        ("sc://host/", "a=;b", "sc://host/;token=a%3D%3Bb"),
        ("sc://host/;use_ssl=true", "t", "sc://host/;use_ssl=true;token=t"),
    ],
)
def test_addresses(url: str, token: str | None, address: str) -> None:
    assert spark_session.address(SparkBackend(url, token=token)) == address


def test_a_token_is_shown_to_nobody() -> None:
    assert "hunter2" not in repr(SparkBackend("sc://host/;user_id=hunter2", token="hunter2"))


def test_errors_are_kinds() -> None:
    error = spark_session.failed(ValueError("victim"))
    assert (str(error), error.passing) == ("ValueError", False)
    error = spark_session.failed(AnalysisException("victim", errorClass="TABLE_OR_VIEW_NOT_FOUND"))
    assert (str(error), error.passing) == ("AnalysisException TABLE_OR_VIEW_NOT_FOUND", False)
    lost = AnalysisException("victim", errorClass="INVALID_HANDLE.SESSION_CLOSED")
    assert spark_session.failed(lost).passing
    away_code = grpc.StatusCode.UNAVAILABLE
    away = SparkConnectGrpcException("victim", grpc_status_code=away_code)
    assert spark_session.failed(away).passing
    assert str(spark_session.failed(away)) == f"SparkConnectGrpcException UNAVAILABLE: {spark_session.CAUSES[away_code]}"


def test_the_clients_own_log_is_silent() -> None:
    with spark_servers.sail() as address, spark_servers.session(address):
        assert all(logging.getLogger(name).disabled for name in spark_session.LOGGERS)


def test_a_session_that_the_address_names_is_not_ended() -> None:
    """On Sail its tables would end with it. The catalog that it names is not there."""
    with spark_servers.sail() as address:
        named = f"{address}/;user_id=dp;session_id=11111111-2222-4333-8444-555555555555"
        first = spark_session.opened(SparkBackend(named), None)
        first.sql("CREATE TABLE kept AS SELECT 1 AS n")
        spark_session.ended(first)
        second = spark_session.opened(SparkBackend(named), 7)
        assert second.sql("SELECT n FROM kept").toArrow().to_pydict() == {"n": [1]}
        with pytest.raises(spark_session.Failed, match="no catalog `lake`"):
            spark_session.opened(SparkBackend(named, catalog="lake"), None)
        spark_session.ended(second)
