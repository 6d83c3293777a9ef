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
    away = SparkConnectGrpcException("victim", grpc_status_code=grpc.StatusCode.UNAVAILABLE)
    assert spark_session.failed(away).passing
    assert "victim" not in str(spark_session.failed(away))


def test_the_clients_own_log_is_silent() -> None:
    with spark_servers.sail() as address, spark_servers.session(address):
        assert all(logging.getLogger(name).disabled for name in spark_session.LOGGERS)
