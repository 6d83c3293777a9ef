"""Budgets: what was spent, what may still be spent, and the chain of entries that says so. `records` keeps it."""
