"""Mechanisms: the only code that opens an `Exact`."""
