"""The small policy of the self-test over its invented rows: made once a worker, changed by nobody."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dpproxy.audit.bench import AuditBench
from dpproxy.audit.self_test import small_bench


@pytest.fixture(scope="session")
def small() -> Iterator[AuditBench]:
    with small_bench() as bench:
        yield bench
