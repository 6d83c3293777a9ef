"""When a stored release answers what is asked: the names of both, and how accurate each is.

Knows: digests of names, noise, losses. Must not know: SQL, where releases are kept, who may see them. Pure functions.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from fractions import Fraction
from typing import Any, Final

from dpproxy.errors import STATEMENT_TOO_COMPLEX, Refusal
from dpproxy.limits.side_threads import SideThreads
from dpproxy.mechanisms.noise import Released
from dpproxy.privacy.loss import Loss
from dpproxy.sql.template import Dialect, Param

SLACK = Fraction(1001, 1000)
"""Noise that is larger by a thousandth is as accurate as asked: a charge divided by three has a remainder to give to one."""


@dataclass(frozen=True)
class Groups:
    """`privacy.measurement.KeyGroups` of one key, its texts as digests."""

    source: str
    open: tuple[str, ...] | None
    held: bool


@dataclass(frozen=True)
class Asked:
    """A measurement as it is looked for. All names are digests (`name`), on one state of the data.

    `noise[i]` is the noise of column i: the scale, or 1/epsilon of a drawn value. `tau`: the threshold of undeclared
    groups. From `base` on: for answers added up from finer groups, as in `privacy.measurement.Names`; `accepts` has the texts
    that a key may be, by its name, `groups` what is known of each key, `complete` also says that the groups are declared
    ones, or that there is only one. `heavy[i]`: the noise of column i has heavier tails than sums of such noise.
    """

    rows: str
    keys: tuple[str, ...]
    columns: tuple[str, ...]
    noise: tuple[Fraction, ...]
    tau: int | None = None
    base: str = ""
    totals: tuple[str | None, ...] = ()
    accepts: Mapping[str, frozenset[str]] = field(default_factory=dict)
    groups: tuple[Groups, ...] = ()
    complete: bool = False
    bound: int = 0
    additive: tuple[bool, ...] = ()
    heavy: tuple[bool, ...] = ()
    mixes: tuple[tuple[tuple[str, int], ...], ...] = ()

    @property
    def exact(self) -> str:
        """Return one name for all that is measured, whatever the order of its parts and the noise."""
        return name(self.rows, *sorted(self.keys), "", *sorted(self.columns))

    @property
    def identity(self) -> str:
        """Return one name for all that is measured, and for its noise."""
        columns = sorted(zip(self.columns, map(str, self.noise), strict=True))
        return name(self.exact, json.dumps([columns, self.tau]))

    def to_json(self) -> dict[str, Any]:
        """Return it as texts, numbers and lists."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        fields |= {"noise": list(map(str, self.noise)), "accepts": {k: sorted(v) for k, v in self.accepts.items()}}
        return fields | {"groups": [dataclasses.astuple(g) for g in self.groups]}

    @classmethod
    def from_json(cls, fields: dict[str, Any]) -> Asked:
        """Raises KeyError, TypeError or ValueError for what `to_json` does not write."""
        lists = {k: tuple(fields[k]) for k in ("keys", "columns", "totals", "additive", "heavy")}
        lists["groups"] = tuple(Groups(s, None if o is None else tuple(o), bool(h)) for s, o, h in fields["groups"])
        noise = tuple(Fraction(n) for n in fields["noise"])
        lists["mixes"] = tuple(tuple((t, int(n)) for t, n in mix) for mix in fields.get("mixes", ()))
        accepts = {key: frozenset(values) for key, values in fields["accepts"].items()}
        return cls(**(fields | lists | {"noise": noise, "accepts": accepts}))


@dataclass(frozen=True)
class StoredRelease:
    """A release, what was asked when it was made, and what a role is exposed to by seeing it. `id` is None until stored."""

    dataset: str
    made: Asked
    released: Released
    loss: Loss
    created: dt.datetime
    roles: frozenset[str]
    id: int | None = None


@dataclass(frozen=True)
class Origin:
    """By which statement, of which hash, a role was first shown a release, and on which epoch of the data, as a digest: for
    operators, who are shown what may be had again. No answer depends on it."""

    statement: str = ""
    epoch: str = ""


NOWHERE = Origin()


@dataclass(frozen=True)
class Repeat:
    """Counts the stored measurements that a role was first shown by one statement. `since`: when."""

    role: str
    statement: str
    measurements: int
    since: dt.datetime


def name(*parts: str) -> str:
    """Return SHA-256 of texts, unambiguously joined."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def serve(stored: StoredRelease, asked: Asked, *, subset: bool = False) -> Released | None:
    """Return the stored release with its parts in the order asked; None when it does not answer at least as accurately.

    `subset`: it may have more columns than were asked for.
    """
    made = stored.made
    if made.rows != asked.rows or sorted(made.keys) != sorted(asked.keys):
        return None
    if not subset and sorted(made.columns) != sorted(asked.columns):
        return None
    if (made.tau is None) != (asked.tau is None) or (made.tau or 0) > (asked.tau or 0) * SLACK + 1:
        return None
    places = [_place(made, column, noise) for column, noise in zip(asked.columns, asked.noise, strict=True)]
    values = tuple(stored.released.values[i] for i in places if i is not None)
    if len(values) < len(places):
        return None
    keys = tuple(stored.released.keys[made.keys.index(key)] for key in asked.keys)
    return Released(keys, values, stored.released.rows)


def _place(made: Asked, column: str, noise: Fraction) -> int | None:
    return next((i for i, known in enumerate(made.columns) if known == column and made.noise[i] <= noise * SLACK), None)


def at_the_price(stored: StoredRelease, asked: Asked, price: Loss) -> bool:
    """Whether a role that is shown this for the first time is exposed to no more than it was told it would be charged.

    Gaussian noise is charged together with that of other measurements of the statement (`privacy.vector_loss`): then it must be
    the very noise that was asked for, as what it costs beside others follows from its sigmas.
    """
    if (stored.loss.conversion or price.conversion) and stored.made.identity != asked.identity:
        return False
    return stored.loss.epsilon <= price.epsilon and stored.loss.delta <= price.delta


def exposure(stored: StoredRelease, price: Loss) -> Loss:
    """Return what is charged for showing it at `price`: at least the release's loss in every reading, and `price` in words.

    A role shall not learn from its charges that another one asked before.
    """
    a, b = stored.loss, price
    delta, failure = max(a.delta, b.delta), max(a.failure, b.failure)
    rdp, gdp = tuple(map(max, a.rdp, b.rdp)), tuple(map(max, a.gdp, b.gdp))
    return Loss(max(a.epsilon, b.epsilon), delta, rdp, gdp, delta - failure)


def any_noise(asked: Asked) -> Asked:
    """Return the same question without its noise and threshold: any release of it will do."""
    return dataclasses.replace(asked, noise=tuple(Fraction(2**100) for _ in asked.noise), tau=asked.tau and 2**62)


# The values of one statement's holes, each spelled once for its type, and how many bytes they may have.
#
# Knows: parameters, digests, a function that spells a literal. Must not know: engines, what a statement says, connections. A
# measurement is named a dozen times and asked in several queries, with the same values in each: so a value is spelled once, and
# a long one beside the loop. In a name a long value stands as its digest: names are made for each look at what is stored, and
# are compared, and none of that shall take longer for a longer list.


LONG: Final = 2_000
"""Characters of a value that are spelled in a millisecond; a longer one is spelled beside the loop."""

Spell = Callable[[Dialect, str, str | None], str]
"""`plan`'s rendering of a value of a PostgreSQL type as a literal of a dialect."""


def check_size(parameters: Iterable[bytes | str | None], most: int, computed: Iterable[str | None] = ()) -> None:
    """Refuse a client's parameters, or these and what the facade `computed`, that have more bytes together than the policy
    allows."""
    own, what = _bytes(parameters), "the parameters of this statement have"
    hint = "Ask for fewer values at a time, or for a range of them: x BETWEEN 1 AND 1000."
    if own <= most:
        what = "the values that this statement computes, and its parameters, have"
        hint = "Let its subqueries over public rows give fewer and shorter values."
    if own + _bytes(computed) > most:
        detail = "So many are not looked at for one statement over private tables. Nothing was charged."
        raise Refusal(STATEMENT_TOO_COMPLEX, f"{what} more than {most:,} bytes", detail=detail, hint=hint)


def _bytes(values: Iterable[bytes | str | None]) -> int:
    return sum(len(value) for value in values if value is not None)


def holes(value: object) -> Iterator[Param]:
    """Return every hole in a measurement, a template or whatever is made of them."""
    if isinstance(value, Param):
        yield value
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            yield from holes(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            yield from holes(getattr(value, each.name))


class SpelledValues:
    """Spells values as `spell` does; it takes the place of that function for one statement."""

    def __init__(self, spell: Spell, aside: SideThreads) -> None:
        self._spell, self._aside = spell, aside
        self._known: dict[tuple[Dialect, str, str], tuple[str, str] | ValueError] = {}

    async def prepare(self, dialect: Dialect, parts: Sequence[object], values: Sequence[str | None]) -> None:
        """Spell the long values that are known by now, for every hole in these parts, in a thread."""
        long = {i: value for i, value in enumerate(values) if value is not None and len(value) > LONG}
        if not long:
            return
        keys = {(dialect, hole.type, long[hole.index]) for hole in holes(tuple(parts)) if hole.index in long}
        fresh = keys - self._known.keys()
        if fresh:
            self._known |= await self._aside.run(lambda: {key: self._both(*key) for key in fresh})

    def __call__(self, dialect: Dialect, type_: str, text: str | None) -> str:
        """Return a value as a literal. Raises ValueError for what the engine cannot take."""
        return self._spelled(dialect, type_, text)[0]

    def named(self, dialect: Dialect, type_: str, text: str | None) -> str:
        """Return what stands for a value in a name. Raises ValueError for what the engine cannot take."""
        return self._spelled(dialect, type_, text)[1]

    def key(self, values: Sequence[str | None]) -> tuple[str | None, ...]:
        """Return what values can be told apart by, which is short however long they are."""
        return tuple(value if value is None or len(value) <= LONG else _digest(value) for value in values)

    def _spelled(self, dialect: Dialect, type_: str, text: str | None) -> tuple[str, str]:
        if text is None or len(text) <= LONG:
            literal = self._spell(dialect, type_, text)
            return literal, literal
        key = dialect, type_, text
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._both(*key)
        if isinstance(known, ValueError):
            raise known
        return known

    def _both(self, dialect: Dialect, type_: str, text: str) -> tuple[str, str] | ValueError:
        try:
            literal = self._spell(dialect, type_, text)
        except ValueError as error:
            return error
        return literal, _digest(literal)


def _digest(text: str) -> str:
    """With a NUL in front, which no literal has."""
    return f"\0{hashlib.sha256(text.encode()).hexdigest()}"
