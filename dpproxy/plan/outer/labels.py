"""What keys and aggregates are called in notices and in EXPLAIN: as the analyst wrote them.

Knows: trees, the names of a SELECT's outputs. Must not know: measurements, noise. A statement may have been written another way
before it was bound (`plan.rewrite`, `sql.person_aggregates`): then columns of ours stand in it, which say nothing to the
analyst. What holds such a name is called by the output that it is returned in.
"""

from __future__ import annotations

from sqlglot import exp

from dpproxy.sql.dialect import to_sql
from dpproxy.sql.output_names import output_name
from dpproxy.sql.trees import aggregate_calls

_OURS = "dpproxy_"
_ELSEWHERE = "a computed expression"


class Labels:
    """The labels of one SELECT, whose outputs are seen before they are rewritten."""

    def __init__(self, select: exp.Select) -> None:
        self._outputs: dict[str, str] = {}
        for item in select.expressions:
            if any(map(_ours, item.walk())):
                for node in (item.unalias().unnest(), *aggregate_calls(item), *item.find_all(exp.Column)):
                    self._outputs.setdefault(to_sql(node), output_name(item))

    def of(self, node: exp.Expr) -> str:
        text = to_sql(node if isinstance(node, exp.Subquery) else node.unnest())
        return text if _OURS not in text else self._outputs.get(text, _ELSEWHERE)


def _ours(node: exp.Expr) -> bool:
    return isinstance(node, exp.Identifier | exp.Anonymous) and str(node.this).startswith(_OURS)
