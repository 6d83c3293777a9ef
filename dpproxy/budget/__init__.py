"""Budgets: what was spent, what may still be, and which answers were already paid for."""
