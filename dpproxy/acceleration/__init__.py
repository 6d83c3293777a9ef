"""Prepared copies and extracts: tables made ahead of statements, so that measurements read less."""
