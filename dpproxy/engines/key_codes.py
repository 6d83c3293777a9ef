"""Keys that are counted by the number of their value: what stands for such a key, which rows have one, and the key again.

Knows: the keys of measured rows and their values, how an engine spells a number. Must not know: which keys have numbers
(`key_domains` decides that), what is counted. Rows of other values are in no group that is asked for: they are left out first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dpproxy.engines import stored_stages
from dpproxy.engines.base import Engine
from dpproxy.engines.group_names import GroupNames
from dpproxy.engines.row_texts import RowTexts
from dpproxy.tree.expr import Call
from dpproxy.tree.measured import Calendar, Coding, Contributions, StoredGroups, StoredSums


@dataclass
class KeyCodes:
    """Keys of rows, which give the number that stands for a key. `values`: of each key that is counted so."""

    texts: RowTexts
    values: dict[int, Coding] = field(default_factory=dict)

    @property
    def _engine(self) -> Engine:
        return self.texts.renderer.engine

    def count(self, stage: object, values: Mapping[int, Coding]) -> None:
        """Count these keys of a stage by number, where the engine has numbers for their values."""
        groups = stage.child if isinstance(stage, Contributions) else stage
        for i, coding in values.items():
            if isinstance(stage, StoredSums):
                self.values[i] = coding
            elif (text := self._engine.coded(self._uncoded(groups, i, coding), coding)) is not None:
                self.values[i], self.texts.codes[i] = coding, text

    def _uncoded(self, groups: object, i: int, values: Coding) -> str:
        """Key i as it is; of a beginning what it is the beginning of, which begins with the same."""
        if isinstance(groups, StoredGroups):
            return stored_stages.key(groups, i)
        key = self.texts.rows.keys[i]
        if isinstance(values, Calendar) and isinstance(key, Call):
            return self.texts.renderer.expr(key.args[1], self.texts.block.names)
        return self.texts.key(i)

    def declared(self) -> str:
        """Write WHERE, of rows whose keys have numbers; empty where none is counted so."""
        tests = [self._engine.declared(f"k{i}", values) for i, values in self.values.items()]
        return f" WHERE {' AND '.join(tests)}" if tests else ""

    def same(self, whole: str, counted: str, names: GroupNames) -> str:
        """Write whether two relations have the same keys: one as they are, one by number."""
        decoded = self._engine.decoded
        coded = [f"{whole}.k{i} = {decoded(f'{counted}.k{i}', values)}" for i, values in self.values.items()]
        others = [k for i, k in enumerate(names.keys) if i not in self.values]
        return " AND ".join([*coded, names.same(whole, counted, others)] if others else coded)
