"""The facade: a real, empty PostgreSQL on which every analyst session runs (docs/architecture.md)."""
