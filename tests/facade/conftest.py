"""The small town of the authoring tests, for the rows that are invented of its shape."""

from __future__ import annotations

from tests.authoring.conftest import bench, town

__all__ = ["bench", "town"]
