"""Budgets: what was spent, what may still be spent, and the durable record of both."""
