"""Stored answers: how they are named, matched, derived from one another, and kept. No plan and no engine is known here."""
