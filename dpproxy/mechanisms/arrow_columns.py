"""Columns of a backend's answer as whole numbers, or an error of a fixed text.

Knows: Arrow. Must not know: what the numbers mean.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from dpproxy.mechanisms.exact_answers import Int64
from dpproxy.mechanisms.noise import MechanismError


def int64(column: pa.ChunkedArray) -> Int64:
    """Read a column that must be BIGINT without NULLs. Raises MechanismError for any other."""
    if column.type != pa.int64() or column.null_count:
        raise MechanismError("a column of the backend's answer is not BIGINT NOT NULL")
    return np.asarray(column.to_numpy(), dtype=np.int64)
