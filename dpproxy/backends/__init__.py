"""Data engines: one file each. They run generated SQL and return `Exact`; they never see an analyst's words."""
