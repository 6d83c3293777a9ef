"""A first policy for a described schema: what can be told from names, types, keys and constraints, and a TODO for the rest.

Knows: catalogs, what a schema says of values, the decisions that a person has made already. Must not know: engines, rows,
terminals; a draft is a pure function. It is careful where it guesses: a table is private by a path to the unit,
public when the author names it, and left out otherwise. Columns named like a person's are hidden. No range or value comes from
the data unless the owner allotted epsilon for it (`authoring.paid_session`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from dpproxy.authoring import report_drafts
from dpproxy.authoring.evidence import NAMELESS, called_after_people, evidence, names_somebody
from dpproxy.authoring.schema_facts import Facts, Place
from dpproxy.authoring.unit_links import Link, bare, called_like, links, named_key, own_key
from dpproxy.authoring.yaml_text import scalar, written_name
from dpproxy.policy.catalog import Catalog, CatalogColumn, CatalogTable
from dpproxy.policy.check import family
from dpproxy.policy.names import fold, singular
from dpproxy.review import hints
from dpproxy.table_terms import TableName, same_kind

Column = tuple[TableName, str]
Cell = str | int | Decimal | bool
CENTURIES = ("1900-01-01", "2099-12-31")
OTHERS = "TODO may name other people, whom nothing here protects; `key` to count them and join on it"
ROWS, GROUPS = 10, 5
"""Bounds of a table nobody has decided about: a beginning, marked so."""


@dataclass(frozen=True)
class Decisions:
    """What a person, or a measurement that was paid for, has decided. What is not decided is drafted with a TODO."""

    unit: Column
    unit_name: str
    public: frozenset[TableName] = frozenset()
    left_out: frozenset[TableName] = frozenset()
    links: Mapping[TableName, Link] = field(default_factory=dict)
    keys: frozenset[Column] = frozenset()
    hidden: frozenset[Column] = frozenset()
    shown: frozenset[Column] = frozenset()
    """Columns that find nobody, whatever their names."""
    ranges: Mapping[Column, tuple[str, str]] = field(default_factory=dict)
    values: Mapping[Column, tuple[Cell, ...]] = field(default_factory=dict)
    bounds: Mapping[TableName, tuple[int, int]] = field(default_factory=dict)
    origins: Mapping[Column | TableName, str] = field(default_factory=dict)
    """Where ranges, values and bounds come from, or why there are none, for their comments."""
    reports: frozenset[TableName] = frozenset()
    """Tables whose columns devices randomised."""
    people: str = ""
    """How many units there are, for a comment, where that is known."""


@dataclass(frozen=True)
class Frame:
    """What stands around the tables: the dataset, its backend as YAML, one role and one user. `limits`: what the role may
    spend, as lines of YAML."""

    dataset: str
    backend: str
    user: str
    verifier: str
    role: str = "analyst"
    limits: tuple[str, ...] = (
        "budget: { epsilon: 10, delta: 1e-9, every: month }  # TODO how much users of the role may learn together",
        "query: { epsilon: 0.1, max_epsilon: 1 }",
        "min_units: 10  # undeclared groups of fewer are never shown",
    )


@dataclass(frozen=True)
class Open:
    """A column that a draft leaves open: its values and ends are anybody's. `has_ends`: those of its type are drafted."""

    place: Column
    type: str
    has_ends: bool


def candidates(catalog: Catalog) -> list[Column]:
    """Return columns that may name the privacy unit, the likeliest first: keys of tables of people that many tables lead to."""
    found = []
    for name, table in catalog.tables.items():
        key = own_key(table)
        named = {c.name for c in table.columns if hints.names_people(c.name)} | ({key} if key is not None else set())
        for column in named:
            score = 100 * called_after_people(name.name) + 50 * hints.names_people(column) + 20 * (column == key)
            score += 4 * len(links(catalog, (name, column))) + 3 * any(hints.personal(c.name) for c in table.columns)
            found.append((-score, str(name), column, (name, column)))
    return [place for *_, place in sorted(found)]


def of_person(catalog: Catalog, place: Column) -> bool:
    """Return whether a name says that a column names people: its own, its table's, or another column's. Else nobody is chosen to
    be protected without a word of the author."""
    table, column = place
    named = called_after_people(table.name) or called_after_people(column) or hints.names_people(column)
    return named or any(hints.personal(each.name) for each in catalog.tables[table].columns)


def unit_name(unit: Column) -> str:
    """Return a noun for one of the people that a column names: by its table, or by its own name where the table is not theirs."""
    table, column = unit[0].name.lower(), unit[1].lower()
    own = hints.names_people(column) and not hints.of_people(table)
    name = re.sub(r"_?(?:id|key|sk|no)$", "", column) if own else singular(table)
    return (name if len(name) > 1 else singular(table)).replace("_", " ")


def led(catalog: Catalog, decisions: Decisions) -> dict[TableName, Link]:
    """Return the link of each table that a draft has as private, the unit's own table first."""
    found = {n: link for n, link in links(catalog, decisions.unit).items() if n not in decisions.public | decisions.reports}
    found |= decisions.links
    gone = set(decisions.left_out)
    while gone:
        found = {name: link for name, link in found.items() if name not in gone}
        gone = {name for name, link in found.items() if link.target is not None and link.target not in found}
    return found


def one_row(table: CatalogTable, link: Link, unit: Column) -> bool:
    """Return whether a unit has one row in a table, as far as its keys, or in the unit's own table names, say. A person's number
    that comes first in a table which is not called after people, one of events, says nothing."""
    keys = [key for key in (table.primary_key, *table.unique) if len(key) == 1]
    called = named_key(table) == link.column or called_after_people(table.name.name)
    own = (table.name, link.column) == unit and own_key(table) == link.column and called
    return link.target is None and ((link.column,) in keys or own)


def open_columns(catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts]) -> list[Open]:
    """Return the columns of private tables of which neither the schema, nor a name, nor anybody says more than a type."""
    return _Draft(catalog, decisions, facts, Frame("", "", "", "")).open()


def draft(catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts], frame: Frame) -> str:
    """Return the policy as commented YAML."""
    return "".join(f"{line}\n" for line in _Draft(catalog, decisions, facts, frame).lines())


class _Draft:
    def __init__(self, catalog: Catalog, decisions: Decisions, facts: Mapping[Place, Facts], frame: Frame) -> None:
        self._catalog, self._decisions, self._frame = catalog, decisions, frame
        self._facts = {(s, t, fold(c)): f for (s, t, c), f in facts.items()}
        self._links = led(catalog, decisions)
        self._led_to = {(link.target, link.target_column) for link in self._links.values() if link.target is not None}

    def lines(self) -> Iterator[str]:
        frame, decisions = self._frame, self._decisions
        yield "# yaml-language-server: $schema=dpproxy.schema.json"
        yield "# A draft by `dpproxy policy init`, of names, types and keys. What is yours to decide is marked. All of this is"
        yield "# public to analysts: take ranges and values from a code book or common sense, never from a look at the data."
        yield "version: 1"
        yield f"dataset: {scalar(frame.dataset)}"
        yield f"backend: {frame.backend}"
        unit = scalar(_dotted(decisions.unit))
        about = "; ".join(filter(None, ("who is protected", decisions.people)))
        yield f"privacy_unit: {{ name: {scalar(decisions.unit_name)}, key: {unit} }}  # {about}"
        yield "budget: { epsilon: 100, delta: 1e-8, every: year }  # TODO all roles together; delta far below 1 / people"
        yield "tables:"
        first = [name for name in self._links if name in self._catalog.tables]
        for name in first:
            yield from self._private(self._catalog.tables[name], self._links[name])
        for name, table in self._catalog.tables.items():
            if name not in self._links:
                yield from self._other(table)
        yield "roles:"
        yield f"  {scalar(frame.role)}:"
        yield from (f"    {line}" for line in frame.limits)
        yield "users:"
        yield f"  {scalar(frame.user)}: {{ role: {scalar(frame.role)}, password: {scalar(frame.verifier)} }}"

    def open(self) -> list[Open]:
        """The columns that nobody has decided about."""
        found = []
        for table, link in ((self._catalog.tables[n], link) for n, link in self._links.items() if n in self._catalog.tables):
            for column in table.columns:
                if column.bounded and self._decided(table, link, column) is None:
                    ends = _ends_of(self._known(table, column), "") is not None or family(column.type) == "date"
                    found.append(Open((table.name, column.name), column.type, ends))
        return found

    def _known(self, table: CatalogTable, column: CatalogColumn) -> Facts:
        return self._facts.get((*table.source, column.name), Facts())

    def _private(self, table: CatalogTable, link: Link) -> Iterator[str]:
        yield f"  {written_name(table.name)}:"
        guess = "" if link.sure or table.name in self._decisions.links else "  # TODO a guess by the column's name"
        if link.target is None:
            yield f"    unit: {_name(link.column)}{guess}"
        else:
            column = f", column: {_name(link.column)}" if link.column != link.target_column else ""
            yield f"    unit: {{ via: {scalar(_dotted((link.target, link.target_column)))}{column} }}{guess}"
        yield from self._bounds(table, link)
        yield "    columns:"
        listed = False
        for each in table.columns:
            line = self._column(table, link, each)
            listed = listed or not line.lstrip().startswith("#")
            yield line
        if not listed:
            yield "      # nothing can be listed here"

    def _bounds(self, table: CatalogTable, link: Link) -> Iterator[str]:
        name, own = table.name, (table.name, link.column) == self._decisions.unit
        keys = [key for key in (table.primary_key, *table.unique) if len(key) == 1]
        decided = self._decisions.bounds.get(name)
        single = one_row(table, link, self._decisions.unit)
        if link.target is None and decided in (None, (1, 1)) and (single or decided is not None):
            if not own:
                yield "    unique: true"
            elif not keys:
                yield "    # TODO taken to have one row each, since the key is called so; checked at start"
            return
        if own:
            yield "    unique: false"
        rows, groups = decided or (ROWS, GROUPS)
        todo = "" if decided else "TODO how much of one unit an answer may contain"
        comment = "; ".join(filter(None, (todo, self._decisions.origins.get(name))))
        yield f"    bounds: {{ rows_per_group: {rows}, groups: {groups} }}" + (f"  # {comment}" if comment else "")
        yield "    # rows_at_most: the most rows that one unit can have, for public reasons; it closes intervals above"

    def _column(self, table: CatalogTable, link: Link, column: CatalogColumn) -> str:
        place = (table.name, column.name)
        name = _name(column.name)
        if not column.bounded:
            return f"      # {name}: left out, {column.reason or 'of a type without a counterpart'}"
        form, comment = self._decided(table, link, column) or _undecided(column, self._known(table, column))
        about = " ".join((column.comment or "").split())
        comment = "; ".join(filter(None, (comment, self._decisions.origins.get(place), about)))
        return f"      {name}: {form}" + (f"  # {comment}" if comment else "")

    def _decided(self, table: CatalogTable, link: Link, column: CatalogColumn) -> tuple[str, str] | None:
        """What somebody, the schema, or a name says of a column, and a comment on it."""
        name, decisions = column.name, self._decisions
        place = (table.name, name)
        if link.target is None and name == link.column:
            return "unit", ""
        if place in decisions.hidden:
            return "hidden", ""
        if place in self._led_to or name in (link.column, own_key(table)):
            return "key", ""
        other = self._referred(table, column)
        if other is not None:
            return f"{{ references: {scalar(_dotted(other))} }}", self._of_whom(link, other)
        if place in decisions.keys:
            return "key", ""
        named = next((k.target for k in table.foreign_keys if k.columns == (name,) and k.target not in self._links), None)
        if named is not None and place not in decisions.ranges and place not in decisions.values:
            others = place not in decisions.shown and named not in decisions.public and called_after_people(named.name)
            return ("hidden", OTHERS) if others else ("{}", f"names a row of `{named}`")
        stated = self._stated(place, column, self._known(table, column))
        if stated is not None:
            return stated
        of_people = table.name == decisions.unit[0] or hints.of_people(table.name.name)
        if place not in decisions.shown and (hints.personal(name) or (of_people and bare(table)[name].lower() == "name")):
            return "hidden", "TODO named like what finds a person"
        if place not in decisions.shown and hints.free_text(name):
            return "hidden", "TODO named like free text"
        if place not in decisions.shown and self._names_others(table, name):
            return "hidden", OTHERS
        return None

    def _names_others(self, table: CatalogTable, column: str) -> bool:
        """Whether a column is called like an id of people, or like the key of a table of people that is left out: a group of each
        would tell of one of them, protected as no unit is."""
        plain = bare(table)[column]
        others = (t for n, t in self._catalog.tables.items() if n not in self._links and n not in self._decisions.public)
        keys = {bare(other)[key] for other in others if called_after_people(other.name.name) and (key := own_key(other))}
        return names_somebody(column) or plain in keys - set(NAMELESS)

    def _of_whom(self, link: Link, other: Column) -> str:
        """A comment on a reference: to a row of the same unit, or, by a second reference to the unit's key, of somebody else."""
        own = (link.target, link.target_column) if link.target is not None else self._decisions.unit
        if other != own:
            return "a row of the same unit"
        who = self._decisions.unit_name
        return f"TODO may name a second {who}, who is not protected by this row: leave the table out, or know it"

    def _referred(self, table: CatalogTable, column: CatalogColumn) -> Column | None:
        """The key of another private table that a column refers to, by a foreign key or by its name. To be wrong here costs
        answers and no privacy: what belongs to another unit is not found."""
        for key in table.foreign_keys:
            if key.columns == (column.name,):
                place = (key.target, key.target_columns[0])
                return place if key.target in self._links and self._is_key(*place) else None
        for name in self._links:
            target = self._catalog.tables[name]
            known, key_name = None, own_key(target)
            if key_name is not None and name != table.name and self._is_key(name, key_name):
                known = target.column(key_name)
            called = bare(target)[key_name] if key_name is not None else ""
            alike = known is not None and family(known.type) == family(column.type) and same_kind(known, column)
            if alike and called_like(bare(table)[column.name], called):
                return name, known.name if known is not None else ""
        return self._undone(table, column)

    def _undone(self, table: CatalogTable, column: CatalogColumn) -> Column | None:
        """What a return takes back: a row of the table named most alike, by the number of the order, ticket or invoice that both
        have; the other's is decided to be a key."""
        own = bare(table)[column.name]
        if not (hints.undoes(table.name.name) and hints.of_document(own)):
            return None
        found = []
        for name in self._links:
            target = self._catalog.tables[name]
            same = next((c for c in target.columns if bare(target)[c.name] == own and same_kind(c, column)), None)
            known = same is not None and same.type == column.type and (name, same.name) in self._decisions.keys
            if known and same is not None and name != table.name and not hints.undoes(name.name):
                found.append((-_alike(name.name, table.name.name), name, same.name))
        return (min(found)[1], min(found)[2]) if found else None

    def _is_key(self, name: TableName, column: str) -> bool:
        """Whether the draft lists the column as a key."""
        place = (name, column)
        if place in self._decisions.hidden:
            return False
        return column in (own_key(self._catalog.tables[name]), self._links[name].column) or place in self._led_to

    def _stated(self, place: Column, column: CatalogColumn, known: Facts) -> tuple[str, str] | None:
        """What somebody or the schema says of a column's values and ends."""
        decisions, kind = self._decisions, family(column.type)
        grid = f", resolution: {known.resolution:f}" if known.resolution is not None else ""
        nulls = ", nulls: true" if column.nullable else ""
        if place in decisions.values:
            return f"{{ values: [{', '.join(map(scalar, decisions.values[place]))}]{nulls} }}", ""
        if place in decisions.ranges and kind in ("number", "date"):
            low, high = decisions.ranges[place]
            return f"{{ range: [{low}, {high}]{grid if kind == 'number' else ''} }}", ""
        if column.type == "bool":
            return f"{{ values: [true, false]{nulls} }}", ""
        if known.values and kind in ("text", "number"):
            return f"{{ values: [{', '.join(map(scalar, known.values))}]{nulls} }}", "from the schema"
        if kind == "number" and known.low is not None and known.high is not None:
            return _ends_of(known, grid)
        return None

    def _other(self, table: CatalogTable) -> Iterator[str]:
        name = written_name(table.name)
        if table.name in self._decisions.public:
            yield f"  {name}: {{ public: true }}"
            return
        if table.name in self._decisions.reports:
            yield from report_drafts.drafted(table)
            return
        if table.name in self._decisions.left_out:
            yield f"  # {name}: left out"
            return
        signs = evidence(self._catalog, frozenset(self._links), self._decisions.unit, table)
        why = f" ({signs[0]})" if signs else ""
        yield f"  # {name}: TODO left out, as nothing proves whose rows it holds{why}"
        yield f"  #   write its `unit`; or `{name}: {{ public: true }}`, if no row is about a person"
        if report_drafts.looks_reported(table):
            yield f"  #   it looks like reports that devices randomised: if it is, `dpproxy policy init --reports {name}`"


def _ends_of(known: Facts, grid: str) -> tuple[str, str] | None:
    """A range that the schema says: by a constraint, or by the type alone."""
    largest = known.largest
    low = known.low if known.low is not None else -largest if largest is not None else None
    high = known.high if known.high is not None else largest
    if low is None or high is None or low >= high:
        return None
    stated = known.low is not None and known.high is not None
    comment = "from the schema" if stated else "TODO the ends of the type: narrower ones are more exact"
    return f"{{ range: [{low:f}, {high:f}]{grid} }}", comment


def _undecided(column: CatalogColumn, known: Facts) -> tuple[str, str]:
    """A column nobody has said anything of."""
    kind = family(column.type)
    grid = f"resolution: {known.resolution:f}" if known.resolution is not None else ""
    ends = _ends_of(known, f", {grid}" if grid else "") if kind == "number" else None
    if ends is not None:
        return ends
    if hints.key_like(column.name):
        return "{}", "TODO `key` if it names a person's own rows"
    if kind == "number":
        return (f"{{ {grid} }}" if grid else "{}"), "TODO a `range` for sums and averages"
    if kind == "date":
        return f"{{ range: [{CENTURIES[0]}, {CENTURIES[1]}] }}", "TODO anybody's dates: narrower ends are more exact"
    if kind == "text":
        return "{}", "TODO `values` if they are few and public"
    return "{}", ""


def _name(column: str) -> str:
    """A column's name as a scalar."""
    return written_name(TableName("public", column))


def _dotted(place: Column) -> str:
    return f"{written_name(place[0], bare=True)}.{written_name(TableName('public', place[1]), bare=True)}"


def _alike(one: str, other: str) -> int:
    """How many characters two names begin with alike."""
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
