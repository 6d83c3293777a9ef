"""Tests here may take the shop of answers, and a server for stored answers."""

from tests.answers.conftest import answers_server, ledger_server, open_gate, stage, world

__all__ = ["answers_server", "ledger_server", "open_gate", "stage", "world"]
