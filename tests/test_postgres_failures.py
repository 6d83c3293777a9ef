"""No file of ours names asyncpg's failures one by one. What each of them is like: tests/reuse/test_server_tables.py."""

from __future__ import annotations

import ast

from .test_imports import trees

CLASSES = {"InterfaceError", "InternalClientError"}


def test_no_file_names_the_classes_itself() -> None:
    """Whoever names one forgets the other."""
    named = {
        module
        for module, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute | ast.Name | ast.alias)
        and (node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else node.name) in CLASSES
    }
    assert named == {"dpproxy.postgres_connections"}
