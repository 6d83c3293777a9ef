"""The facade: a real, empty PostgreSQL on which every analyst session runs (ARCHITECTURE.md section 2)."""
