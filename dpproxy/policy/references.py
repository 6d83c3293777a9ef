"""References in a backend's address: `${env:NAME}` and `${file:path}`.

Knows: where secrets may live outside the policy. Must not know: what they are for. A reference is replaced once and
never looked into again; messages name the reference and never its value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpproxy.policy.reader import Reader, kind
from dpproxy.policy.scalars import is_null
from dpproxy.policy.tree import Node, Scalar

MAX_SECRET_BYTES = 64 * 1024  # a connection string or a key; a larger file is not a secret
_REFERENCE = re.compile(r"\$\{([^}]*)\}")


@dataclass(frozen=True)
class Secrets:
    """Replaces references by what they refer to. Files are relative to `base`, the policy's folder."""

    env: Mapping[str, str]
    base: Path

    def read(self, reader: Reader, node: Node, what: str) -> str | None:
        """Return the text of a field with its references replaced. Problems are recorded in `reader`."""
        if not isinstance(node, Scalar) or not node.text or is_null(node):
            seen = "empty" if isinstance(node, Scalar) and not node.plain else kind(node)
            reader.problem(node.at, f"`{what}` must be text, not {seen}", "write text, ${env:NAME} or ${file:path}", "wrong-type")
            return None
        parts: list[str] = []
        end = 0
        for found in _REFERENCE.finditer(node.text):
            value = self._value(reader, node, found[1])
            if value is None:
                return None
            parts += [node.text[end : found.start()], value]
            end = found.end()
        return "".join([*parts, node.text[end:]])

    def _value(self, reader: Reader, node: Scalar, reference: str) -> str | None:
        source, _, name = reference.partition(":")
        if source == "env" and name:
            value = self.env.get(name)
            if value is None:
                reader.problem(node.at, f"the environment has no `{name}`", f"set it: export {name}=...", "secret-reference")
            return value
        if source == "file" and name:
            return self._file(reader, node, name)
        reader.problem(node.at, "not a reference that is known", "write ${env:NAME} or ${file:path}", "secret-reference")
        return None

    def _file(self, reader: Reader, node: Scalar, name: str) -> str | None:
        try:
            with (self.base / name).open("rb") as stream:
                data = stream.read(MAX_SECRET_BYTES + 1)
            if len(data) > MAX_SECRET_BYTES:
                raise ValueError("too large")
            return data.decode().rstrip("\r\n")
        except (OSError, ValueError) as error:
            fix = "make it a small text file that the proxy can read"
            reader.problem(node.at, f"the file `{name[:80]}` cannot be used ({type(error).__name__})", fix, "secret-reference")
            return None
