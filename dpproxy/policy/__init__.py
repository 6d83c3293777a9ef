"""Policies: what a dataset's owner allows."""
