"""Reports and rows of units are never read by one query: the rule that keeps two promises apart.

Knows: trees, what the policy says of tables. Must not know: how either is measured. A measurement is about people, and is
charged for; a reading is about reports, which are random already, and is not. So each tree of a measurement has leaves that are
people's or public, and each tree of a reading has leaves that are reports or public. A leaf is wherever a table is read: below
any node, in any expression, in the definition of a stored table. The lemma is in docs/proof.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dpproxy.kernel.leaves import Leaves, Unproven
from dpproxy.privacy.readings import Reading, Verdict
from dpproxy.tree.measured import ReadingQuery
from dpproxy.tree.relation import Scan


def scans(tree: object) -> Iterator[Scan]:
    """Yield each table that is read anywhere below, once for each node; a node that is shared is looked through once."""
    seen: dict[int, object] = {}
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, tuple | list):
            waiting.extend(node)
        elif (parts := getattr(node, "__dataclass_fields__", ())) and id(node) not in seen:  # a third of what `fields` takes
            seen[id(node)] = node
            if isinstance(node, Scan):
                yield node
            waiting.extend(getattr(node, part) for part in parts)


def check_absent(trees: object, leaves: Leaves) -> None:
    """Raise Unproven where the trees of a measurement read reports. A policy that lists none has none to read."""
    if not any(leaf.reports for leaf in leaves.values()):
        return
    if any(leaf.reports for scan in scans(trees) if (leaf := leaves.get(scan.source)) is not None):
        raise Unproven("a measurement reads reports")


def judged(reading: Reading, trees: tuple[ReadingQuery, ...], leaves: Leaves) -> Reading:
    """Return the reading with the verdict that it is of reports and public rows alone. `trees[i]` is that of its query i.
    Raises Unproven."""
    if len(trees) != len(reading.queries):
        raise Unproven("a reading has other queries than trees")
    for scan in scans(trees):
        leaf = leaves.get(scan.source)
        if leaf is None:
            raise Unproven("a table that the policy does not list")
        if leaf.private:
            raise Unproven("a reading reads rows of units")
    return replace(reading, verdict=Verdict(reading.queries))
