"""Tests here may take the scripted proxy."""

from tests.worlds.scripted import open_gate, stage

__all__ = ["open_gate", "stage"]
