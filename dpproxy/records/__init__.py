"""Where the ledger's entries are kept, and what operators do with them: SQLite, PostgreSQL, verification, repair, backups."""
