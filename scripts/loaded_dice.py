"""`dpproxy` with loaded dice, for comparing answers with plain SQL: started by `scripts/accept --exact`, never served.

Four things of the product are replaced, in this process alone (the product has no switch for any of them):

- noise is 0, no group is held back for being small, and a choice falls on what the data say;
- MIN and MAX are the least and the greatest, not the order statistic that noise would need;
- declared groups that have no rows are left out, as in plain SQL; those of a public table that an outer join keeps stay;
- there are no prepared copies, whose tables would answer with these groups.

Where data are on Sail, each session also runs the statements that name them, since Sail keeps a catalog for each session:
`DPPROXY_ACCEPT_TABLES` names a JSON file of a backend's address and these statements.

Everything else is as it is: planning, generated SQL, the outer query on the facade, the wire.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from dpproxy.answers import charge_round as rounds
from dpproxy.cli import app
from dpproxy.mechanisms import exponential
from dpproxy.mechanisms import release as releasing
from dpproxy.mechanisms.exponential import Runs
from dpproxy.mechanisms.noise import Exact, FoundGroups, Int64, Noise, Released, exact_loss, saturate
from dpproxy.plan.measure import compiler
from dpproxy.plan.measure.compiler import Compiled
from dpproxy.plan.outer import registry
from dpproxy.privacy.measurement import Measurement
from dpproxy.privacy.noise_scale import MechanismName
from dpproxy.serve import datasets


class NoNoise:
    """Adds nothing, says of itself what real noise of that scale costs, and has no bits: `choose` below asks for none."""

    def laplace(self, scale: Fraction, values: Int64) -> Int64:
        return saturate(values)

    def gaussian(self, scale: Fraction, values: Int64) -> Int64:
        return saturate(values)

    def entropy(self, size: int) -> bytes:
        raise AssertionError("a choice was left to chance")

    def loss(self, mechanism: MechanismName, scale: Fraction, l0: int, linf: int) -> Fraction:
        return exact_loss(mechanism, scale, l0, linf)


def release(measurement: Measurement, exact: Exact, _: Noise, __: FoundGroups | None = None) -> Released:
    """Return every group, as it is."""
    everything = replace(measurement, threshold=None, top=None, dense=True, l0=measurement.reach)  # LIMIT is the outer query's
    return releasing.release(everything, exact, NoNoise())


def choose(runs: Runs, *_: object) -> Int64:
    """Return the first point of the best run of each group."""
    best = np.flatnonzero(runs.gap == 0)
    firsts = best[np.searchsorted(runs.group[best], np.arange(runs.groups))]
    return np.asarray(runs.start[firsts], dtype=np.int64)


class Compiler(compiler.Compiler):
    """Measures the groups that have rows."""

    def compiled(self, *parts: object) -> Compiled:
        made = super().compiled(*parts)  # type: ignore[arg-type]
        if self.rows.padded or made.bounding.dense is None:
            return made
        if made.specs:
            return _asking(made, _joined(made.sql))
        names = ", ".join(f"k{i}" for i in range(len(made.keys)))
        counted = super().compiled(parts[0], [compiler.BasisSpec("count", None, None, "")])  # type: ignore[arg-type]
        return _asking(made, f"SELECT {names} FROM ({_joined(counted.sql)}) AS present ORDER BY {names}")


def _asking(made: Compiled, sql: str) -> Compiled:
    """Another text beside the tree, which is not what it says any more: the kernel looks at trees."""
    return replace(made, query=replace(made.query, text=sql))


def _joined(sql: str) -> str:
    head, _, tail = sql.rpartition(" FROM d LEFT JOIN a ON ")
    return f"{head} FROM d JOIN a ON {tail}"


REPLACED = (
    (rounds, "release", release),
    (exponential, "choose", choose),
    (exponential, "extreme_rank", lambda *_: 1),
    (registry, "Compiler", Compiler),
    (datasets, "_accelerator", lambda *_: None),
)
"""Where the product takes each of them from, and what it takes instead."""


def load() -> None:
    """Raises AttributeError when one of them has moved: dice that are in nobody's hand are not loaded."""
    for module, name, loaded in REPLACED:
        getattr(module, name)
        setattr(module, name, loaded)


def name_tables(file: Path) -> None:
    """Have each session on a Spark Connect server run the statements of its address first."""
    from dpproxy.backends import spark_session

    opened, statements = spark_session.opened, json.loads(file.read_text())

    def prepared(config: Any, key: int | None) -> Any:
        session = opened(config, key)
        for statement in statements[config.url]:
            session.sql(statement)
        return session

    spark_session.opened = prepared


if __name__ == "__main__":
    load()
    if "DPPROXY_ACCEPT_TABLES" in os.environ:
        name_tables(Path(os.environ["DPPROXY_ACCEPT_TABLES"]))
    app()
