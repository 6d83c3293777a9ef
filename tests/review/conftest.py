"""Tests here may take the small town."""

from tests.authoring.conftest import bench, town

__all__ = ["bench", "town"]
