"""What tables say of a stored release in plain text, and as what it is sealed.

Knows: names. Must not know: keys of ciphers, what is sealed. A sealed payload is opened only under the name it was sealed as
(`reuse.seal`), so that whatever stands beside it in plain text has to be what it was.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class ReleaseKey:
    """Is what the tables say of a release in plain text. What is sealed is sealed together with it, so that no row passes for
    another, for an earlier or a later one, or for one that another role has seen."""

    id: int
    exact: str
    base: str
    dataset: str
    created: str

    @property
    def columns(self) -> tuple[object, ...]:
        return (self.id, self.exact, self.base, self.dataset, self.created)

    @property
    def sealed_as(self) -> str:
        return json.dumps(["release", *self.columns])

    def seen_as(self, role: str, at: str) -> str:
        return json.dumps(["seen", *self.columns, role, at])
