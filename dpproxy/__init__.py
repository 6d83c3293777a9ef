"""dpproxy: plain PostgreSQL SQL in, differentially private answers out. See README.md.

Knows: the names that Python programs may rely on (docs/reference/python.md). Must not import them before somebody asks: whoever
imports one file of the package would wait for a server that it does not use. Everything that `__all__` does not name is private,
whatever it is called, and may change in any version.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpproxy.serve.launch import LaunchError, Proxy, launched

__all__ = ["LaunchError", "Proxy", "__version__", "launched"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Return a public name from where it is defined. Raises AttributeError."""
    if name in __all__:
        return getattr(importlib.import_module("dpproxy.serve.launch"), name)
    raise AttributeError(f"module 'dpproxy' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
