"""The planner's own language: typed expressions, relations, intervals. Frozen values, no SQL and no sqlglot."""
